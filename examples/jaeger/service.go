package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.opentelemetry.io/otel/codes"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/connprof/connprof/examples/internal/embedded"
	"github.com/connprof/connprof/pool"
	"github.com/connprof/connprof/profiler"
)

// A shop is a web service over two databases, as one writes it: nothing in its handlers knows of spans. Each has the request's context, and
// that is all that oteltrace needs.
type shop struct {
	orders   *pool.DB          // one connection
	ledger   *pool.DB          // keeps no idle connection, resumes TLS sessions
	archive  *pool.DB          // one connection
	reports  *pool.DB          // has a password that was changed
	profiles *mongo.Collection // connects when first asked
	reviews  *mongo.Collection // keeps a connection ready

	// exporting is called while an export holds its connection, starting makes the client of a function that has just started.
	exporting func()
	starting  func() (*mongo.Collection, error)
	asked     time.Time // when such a function asked the client that it had made
}

// handler is the service, each request in a server span of tracer. The response tells its trace in the header traceHeader.
func (s *shop) handler(tracer trace.Tracer) http.Handler {
	mux := http.NewServeMux()
	for pattern, handle := range map[string]func(ctx context.Context, id string) error{
		"GET /orders/{id}":  s.order,
		"GET /stock/{id}":   s.stock,
		"GET /export":       s.export,
		"GET /invoice/{id}": s.invoice,
		"GET /history":      s.history,
		"GET /report":       s.report,
		"GET /reviews/{id}": s.review,
		"GET /advice/{id}":  s.advice,
	} {
		mux.Handle(pattern, traced(tracer, pattern, handle))
	}
	return mux
}

// pathOf is the path of a route for an ID.
func pathOf(route, id string) string { return strings.Replace(route, "{id}", id, 1) }

const traceHeader = "Trace-Id"

// traced is what an instrumentation of net/http does: a server span around the handler.
func traced(tracer trace.Tracer, pattern string, handle func(ctx context.Context, id string) error) http.Handler {
	route := pattern[len("GET "):]
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, span := tracer.Start(r.Context(), pattern, trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
			semconv.HTTPRequestMethodGet, semconv.HTTPRoute(route), semconv.URLPath(r.URL.Path), semconv.URLScheme("http")))
		defer span.End()
		w.Header().Set(traceHeader, span.SpanContext().TraceID().String())
		status := http.StatusOK
		if err := handle(ctx, r.PathValue("id")); err != nil {
			status = http.StatusInternalServerError
			span.SetStatus(codes.Error, "")
			span.SetAttributes(semconv.ErrorTypeKey.String(fmt.Sprint(status)))
		}
		span.SetAttributes(semconv.HTTPResponseStatusCode(status))
		w.WriteHeader(status)
	})
}

const byID = "SELECT field0 FROM " + embedded.Table + " WHERE _id = ?"

func read(ctx context.Context, db *pool.DB, id string) error {
	var field string
	return db.QueryRowContext(ctx, byID, id).Scan(&field)
}

func find(ctx context.Context, c *mongo.Collection, id string) error {
	// profiler.Asked is to MongoDB's client what pool.Wrap is to a *sql.DB: with it the wait is known from here on, the choice of a
	// server included.
	return findAsked(profiler.Asked(ctx), c, id)
}

func findAsked(ctx context.Context, c *mongo.Collection, id string) error {
	_, err := c.FindOne(ctx, bson.D{{Key: "_id", Value: id}}).Raw()
	return err
}

// order reads an order from MySQL and who ordered from MongoDB.
func (s *shop) order(ctx context.Context, id string) error {
	if err := read(ctx, s.orders, id); err != nil {
		return err
	}
	return find(ctx, s.profiles, id)
}

func (s *shop) stock(ctx context.Context, id string) error   { return read(ctx, s.orders, id) }
func (s *shop) invoice(ctx context.Context, id string) error { return read(ctx, s.ledger, id) }
func (s *shop) review(ctx context.Context, id string) error  { return find(ctx, s.reviews, id) }

// advice makes its client first, as a function does that is started for its first request.
func (s *shop) advice(ctx context.Context, id string) error {
	c, err := s.starting()
	if err != nil {
		return err
	}
	ctx = profiler.Asked(ctx)
	s.asked = time.Now()
	return findAsked(ctx, c, id)
}

// export reads in a transaction and works on what it read before it lets its connection go.
func (s *shop) export(ctx context.Context, _ string) error {
	tx, err := s.orders.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var field string
	if err := tx.QueryRowContext(ctx, byID, embedded.Key(0)).Scan(&field); err != nil {
		return err
	}
	s.exporting()
	return tx.Commit()
}

// history asks ten times.
func (s *shop) history(ctx context.Context, _ string) error {
	for i := range 10 {
		if err := read(ctx, s.archive, embedded.Key(i)); err != nil {
			return err
		}
	}
	return nil
}

func (s *shop) report(ctx context.Context, _ string) error {
	return read(ctx, s.reports, embedded.Key(0))
}

// A server is the shop on a loopback port.
type server struct {
	http *http.Server
	url  string
}

func serve(h http.Handler) (*server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("web service: %w", err)
	}
	s := &server{http: &http.Server{Handler: h}, url: "http://" + l.Addr().String()}
	go s.http.Serve(l)
	return s, nil
}

// get sends a request and returns its status and the ID of its trace. The server span has ended when it returns.
func (s *server) get(ctx context.Context, path string) (status int, traceID string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	response.Body.Close()
	return response.StatusCode, response.Header.Get(traceHeader), nil
}

func (s *server) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = s.http.Shutdown(ctx)
}
