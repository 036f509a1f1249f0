package mongoprof

import (
	"context"

	"github.com/connprof/connprof/pool"
	"go.mongodb.org/mongo-driver/event"
	"go.mongodb.org/mongo-driver/mongo"
)

func poolMonitor(m *pool.CMAP, user *event.PoolMonitor) *event.PoolMonitor {
	ours := func(e *event.PoolEvent) {
		pe := pool.PoolEvent{
			Type: e.Type, Address: e.Address, ConnectionID: e.ConnectionID, Duration: e.Duration, Reason: e.Reason, Err: e.Error,
		}
		if e.PoolOptions != nil {
			pe.MaxPoolSize = e.PoolOptions.MaxPoolSize
		}
		m.Pool(&pe)
	}
	if user == nil || user.Event == nil {
		return &event.PoolMonitor{Event: ours}
	}
	return &event.PoolMonitor{Event: func(e *event.PoolEvent) {
		if e.Type == event.ConnectionCreated { // the create begins when the driver goes on
			user.Event(e)
			ours(e)
			return
		}
		ours(e)
		user.Event(e)
	}}
}

func commandMonitor(m *pool.CMAP, user *event.CommandMonitor) *event.CommandMonitor {
	if user == nil {
		user = new(event.CommandMonitor)
	}
	var started func(context.Context, *event.CommandStartedEvent) // none, if nobody wants it: the driver copies each command for it
	if user.Started != nil || m.Profiler.Statements {
		started = func(ctx context.Context, e *event.CommandStartedEvent) {
			m.Started(ctx, pool.StartedEvent{
				ConnectionID: e.ConnectionID, RequestID: e.RequestID, Name: e.CommandName, Command: e.Command,
			})
			if user.Started != nil {
				user.Started(ctx, e)
			}
		}
	}
	return &event.CommandMonitor{
		Started: started,
		Succeeded: func(ctx context.Context, e *event.CommandSucceededEvent) {
			m.Command(ctx, &pool.CommandEvent{
				ConnectionID: e.ConnectionID, RequestID: e.RequestID,
				Name: e.CommandName, Database: e.DatabaseName, Duration: e.Duration, Reply: e.Reply,
			})
			if user.Succeeded != nil {
				user.Succeeded(ctx, e)
			}
		},
		Failed: func(ctx context.Context, e *event.CommandFailedEvent) {
			ce := pool.CommandEvent{
				ConnectionID: e.ConnectionID, RequestID: e.RequestID,
				Name: e.CommandName, Database: e.DatabaseName, Duration: e.Duration, Err: failure(e.Failure),
				Session: mongo.SessionFromContext(ctx) != nil,
			}
			retryable(&ce, e.Failure)
			m.Command(ctx, &ce)
			if user.Failed != nil {
				user.Failed(ctx, e)
			}
		},
	}
}

func serverMonitor(m *pool.CMAP, user *event.ServerMonitor) *event.ServerMonitor {
	ours := new(event.ServerMonitor)
	if user != nil {
		*ours = *user // everything but heartbeats is the user's alone
	}
	started, succeeded, failed := ours.ServerHeartbeatStarted, ours.ServerHeartbeatSucceeded, ours.ServerHeartbeatFailed
	ours.ServerHeartbeatStarted = func(e *event.ServerHeartbeatStartedEvent) {
		if started != nil {
			started(e)
		}
		m.Heartbeat(pool.HeartbeatEvent{Type: pool.HeartbeatStarted, Awaited: e.Awaited})
	}
	ours.ServerHeartbeatSucceeded = func(e *event.ServerHeartbeatSucceededEvent) {
		m.Heartbeat(pool.HeartbeatEvent{Type: pool.HeartbeatSucceeded, Awaited: e.Awaited, ConnectionID: e.ConnectionID})
		if succeeded != nil {
			succeeded(e)
		}
	}
	ours.ServerHeartbeatFailed = func(e *event.ServerHeartbeatFailedEvent) {
		m.Heartbeat(pool.HeartbeatEvent{Type: pool.HeartbeatFailed, Awaited: e.Awaited, Err: e.Failure})
		if failed != nil {
			failed(e)
		}
	}
	return ours
}
