package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/connprof/connprof/examples/internal/embedded"
)

// A sight is one trace and what a person sees in it.
type sight struct {
	name, says string
	trace      string        // its ID; "" if only a link leads to it, from the last query of the next sight
	took       time.Duration // what the client waited for its request; 0 if there was none
	want       expected
}

// A scene sends requests and tells of the traces that come of them, in the order in which they are looked at.
type scene func(ctx context.Context, s *setup) ([]sight, error)

// What happens, in this order: each scene finds the connections as the one before left them.
var scenes = []scene{cold, warm, exhausted, killed, refused, resumed, amortised, background, starting}

// request sends one request and expects a status.
func (s *setup) request(ctx context.Context, path string, want int) (traceID string, took time.Duration, err error) {
	start := time.Now()
	status, traceID, err := s.server.get(ctx, path)
	took = time.Since(start)
	if err == nil && status != want {
		err = fmt.Errorf("GET %s: status %d, want %d", path, status, want)
	}
	return traceID, took, err
}

func cold(ctx context.Context, s *setup) ([]sight, error) {
	id := embedded.Key(7)
	trace, took, err := s.request(ctx, "/orders/"+id, http.StatusOK)
	return []sight{{
		name: "Cold", trace: trace, took: took,
		says: "The first request finds no connection. Most of its time is the making of two, phase by phase; the queries are the small rest. " +
			"(MongoDB's driver makes its connections in the background. This one is a child of the request all the same, because the request " +
			"had asked before it was begun.)",
		want: served("/orders/{id}", id,
			s.mysqlSetup(ordersHost, "orders 1"), s.mysqlQuery(ordersHost, "orders 1", selectName, 1),
			s.mongoSetup(profilesHost, "profiles 1"), s.mongoFind(profilesHost, "profiles 1", 1)),
	}}, err
}

func warm(ctx context.Context, s *setup) ([]sight, error) {
	time.Sleep(idleTime)
	id := embedded.Key(8)
	trace, took, err := s.request(ctx, "/orders/"+id, http.StatusOK)
	mysql, mongo := s.mysqlQuery(ordersHost, "orders 1", selectName, 2), s.mongoFind(profilesHost, "profiles 1", 2)
	for _, q := range []expected{mysql, mongo} {
		q.attrs["connprof.connection.idle"] = atLeast(idleTime)
	}
	return []sight{{
		name: "Warm", trace: trace, took: took,
		says: "The same request again. Both connections are reused, and nothing but the queries is left. Each links to the span in the trace above " +
			"in which its connection was made, and says what TLS comes to by now, a query: half.",
		want: served("/orders/{id}", id, mysql, mongo),
	}}, err
}

// exhausted lets a request wait for the pool's only connection, which an export holds for exportingWork from then on.
func exhausted(ctx context.Context, s *setup) ([]sight, error) {
	type answer struct {
		trace string
		took  time.Duration
		err   error
	}
	id := embedded.Key(9)
	second := make(chan answer, 1)
	s.shop.exporting = func() {
		before := s.shop.orders.Stats().WaitCount
		go func() {
			trace, took, err := s.request(ctx, "/stock/"+id, http.StatusOK)
			second <- answer{trace, took, err}
		}()
		for s.shop.orders.Stats().WaitCount == before && ctx.Err() == nil {
			time.Sleep(100 * time.Microsecond)
		}
		time.Sleep(exportingWork)
	}
	export, took, err := s.request(ctx, "/export", http.StatusOK)
	if err != nil {
		return nil, err
	}
	waiting := <-second
	inTransaction := func(name string, index int64) expected {
		q := s.mysqlQuery(ordersHost, "orders 1", name, index)
		for _, key := range []string{"connprof.wait", "connprof.queued", "connprof.waited_for", "connprof.query.attempts"} {
			delete(q.attrs, key) // the transaction has its connection
		}
		return q
	}
	holder := served("/export", "", s.mysqlQuery(ordersHost, "orders 1", "BEGIN", 3), inTransaction(selectName, 4), inTransaction("COMMIT", 5))
	var commit *span
	holder.also = func(c *checker, got *span) {
		commit = got.child("COMMIT")
		if gap := time.Duration(commit.start - got.child(selectName).end); gap < exportingWork {
			c.fail("%v between the query and the commit, less than the %v of work", gap, exportingWork)
		}
	}
	query := s.mysqlQuery(ordersHost, "orders 1", selectName, 6)
	query.attrs["connprof.wait"], query.attrs["connprof.queued"] = atLeast(exportingWork), atLeast(exportingWork)
	wait := s.wait(ordersHost, "mysql", exportingWork)
	wait.also = func(c *checker, got *span) {
		if commit != nil && got.end < commit.end-int64(clockNoise) {
			c.fail("the wait ended %v before the holder's commit", time.Duration(commit.end-got.end))
		}
	}
	return []sight{{
		name: "A pool's only connection in use", trace: export, took: took,
		says: "An export reads in a transaction and works 50 ms on what it read: the gap before COMMIT. Its connection is nobody else's all that time.",
		want: holder,
	}, {
		name: "Pool exhausted", trace: waiting.trace, took: waiting.took,
		says: "Another request in that time. The database answered as fast as ever: the request waited for the pool.",
		want: served("/stock/{id}", id, wait, query),
	}}, waiting.err
}

func killed(ctx context.Context, s *setup) ([]sight, error) {
	s.relays[ordersHost].kill()
	time.Sleep(2 * idleTime) // the news reaches the client's kernel
	id := embedded.Key(10)
	trace, took, err := s.request(ctx, "/stock/"+id, http.StatusOK)
	query := s.mysqlQuery(ordersHost, "orders 2", selectName, 1)
	query.attrs["connprof.query.attempts"] = equal[int64](2)
	query.attrs["connprof.query.stale_idle"] = atLeast(2 * idleTime)
	return []sight{{
		name: "After an idle kill", trace: trace, took: took,
		says: "The connection was cut while it was idle, as firewalls do. The pool finds it dead when it is to hand it out, and the request, which sees " +
			"no error, pays for a new one. Its query says that it was tried on two connections and how long the dead one had been idle.",
		want: served("/stock/{id}", id, s.mysqlSetup(ordersHost, "orders 2"), query),
	}}, err
}

// accessDenied is MySQL's number for a login that it refuses (ER_ACCESS_DENIED_ERROR).
const accessDenied = "1045"

func refused(ctx context.Context, s *setup) ([]sight, error) {
	trace, took, err := s.request(ctx, "/report", http.StatusInternalServerError)
	connection := s.mysqlSetup(reportsHost, "")
	connection.status = "error in auth: check user, password, the database's name, and that the server lets this client in"
	connection.attrs["error.type"], connection.attrs["db.response.status_code"] = equal(accessDenied), equal(accessDenied)
	connection.attrs["connprof.create.failed_phase"] = equal("auth")
	connection.children = connection.children[:len(connection.children)-1] // no setup
	connection.least -= networkDelay
	auth := &connection.children[len(connection.children)-1]
	auth.status = "error"
	auth.attrs.add(conditions{"error.type": equal(accessDenied), "db.response.status_code": equal(accessDenied)})
	want := served("/report", "", connection)
	want.status = "-"
	want.attrs["http.response.status_code"] = equal[int64](http.StatusInternalServerError)
	want.attrs["error.type"] = equal("500")
	return []sight{{
		name: "Failed login", trace: trace, took: took,
		says: "The pool's password is no longer the server's. The network, TLS and the server are well; the login is in error, and no query was sent.",
		want: want,
	}}, err
}

func resumed(ctx context.Context, s *setup) ([]sight, error) {
	id := embedded.Key(11)
	full := sight{
		name: "A full TLS handshake",
		says: "This pool keeps no idle connection, so that every request makes one; and its client looks at a revocation list (30 ms) when it is shown " +
			"a certificate. Here it is shown one.",
		want: served("/invoice/{id}", id, s.mysqlSetup(ledgerHost, "ledger 1"), s.mysqlQuery(ledgerHost, "ledger 1", selectName, 1)),
	}
	handshake := func(v *sight) *expected { return v.want.children[0].child("tls") }
	handshake(&full).least += revocation
	full.want.children[0].least += revocation
	var took time.Duration
	handshake(&full).also = func(_ *checker, got *span) { took = got.duration() }
	var err error
	if full.trace, full.took, err = s.request(ctx, "/invoice/"+id, http.StatusOK); err != nil {
		return nil, err
	}

	again := sight{
		name: "A resumed TLS handshake",
		says: "The next request makes a connection again, but resumes the session: no certificate, no list, and one signature less for the server.",
		want: served("/invoice/{id}", id, s.mysqlSetup(ledgerHost, "ledger 2"), s.mysqlQuery(ledgerHost, "ledger 2", selectName, 1)),
	}
	again.want.children[0].attrs["tls.resumed"] = equal(true)
	handshake(&again).attrs["tls.resumed"] = equal(true)
	handshake(&again).also = func(c *checker, got *span) {
		if got.duration() >= took {
			c.fail("the resumed handshake took %v, the full one %v", got.duration(), took)
		}
	}
	// On a busy machine any one may take long: the shortest of a few is looked at.
	const attempts = 5
	for range attempts {
		trace, took, err := s.request(ctx, "/invoice/"+id, http.StatusOK)
		if err != nil {
			return nil, err
		}
		if again.trace == "" || took < again.took {
			again.trace, again.took = trace, took
		}
		if again.took < full.took-revocation/2 {
			break
		}
	}
	return []sight{full, again}, nil
}

func amortised(ctx context.Context, s *setup) ([]sight, error) {
	const queries = 10
	children := []expected{s.mysqlSetup(archiveHost, "archive 1")}
	for i := range int64(queries) {
		children = append(children, s.mysqlQuery(archiveHost, "archive 1", selectName, i+1))
	}
	want := served("/history", "", children...)
	want.also = func(c *checker, got *span) {
		var first, before time.Duration
		i := 0
		for _, q := range got.children {
			share, ok := q.seconds("connprof.tls.amortized")
			if !ok {
				continue
			}
			if i++; i == 1 {
				first = share
			} else if share >= before {
				c.fail("TLS comes to %v a query after query %d, to %v after the one before", share, i, before)
			}
			before = share
		}
		if (first/queries - before).Abs() > rounding {
			c.fail("TLS comes to %v a query after %d of them, to %v after the first", before, queries, first)
		}
	}
	trace, took, err := s.request(ctx, "/history", http.StatusOK)
	return []sight{{
		name: "Ten queries on one connection", trace: trace, took: took,
		says: "A request that asks ten times. What TLS cost is paid by one connection and shared by all its queries.",
		want: want,
	}}, err
}

func background(ctx context.Context, s *setup) ([]sight, error) {
	for s.created(reviewsHost) == 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		time.Sleep(time.Millisecond)
	}
	id := embedded.Key(12)
	trace, took, err := s.request(ctx, "/reviews/"+id, http.StatusOK)
	find := s.mongoFind(reviewsHost, "reviews 1", 1)
	find.attrs["connprof.waited_for"] = equal("free")
	find.attrs["connprof.wait"] = atLeast(0)
	return []sight{{
		name: "A connection made ahead",
		says: "This client has minPoolSize=1: its pool made a connection before any request came. Nobody asked for it, so it is a trace of its own.",
		want: s.mongoSetup(reviewsHost, "reviews 1"),
	}, {
		name: "The first request on it", trace: trace, took: took,
		says: "The first operation of a connection, and yet it waited for nothing: it links to the trace in which the connection was made.",
		want: served("/reviews/{id}", id, find),
	}}, err
}

// starting lets a request make its own client. What the choice of a server takes at least is known from when the client was made: if the
// machine took too long between that and the question for a server, the next client is looked at.
func starting(ctx context.Context, s *setup) ([]sight, error) {
	open, id := s.shop.starting, embedded.Key(13)
	const heartbeat = busyServer + lookupDelay + 2*networkDelay // TLS and hello
	for n := int64(1); ; n++ {
		var made time.Time
		s.relays[adviceHost].first.Store(int64(busyServer))
		s.shop.starting = func() (*mongo.Collection, error) {
			made = time.Now()
			return open()
		}
		trace, took, err := s.request(ctx, "/advice/"+id, http.StatusOK)
		if err != nil {
			return nil, err
		}
		least := heartbeat - s.shop.asked.Sub(made)
		if least <= waitThreshold {
			if n == 5 {
				return nil, fmt.Errorf("starting: the machine is too busy: %v between two calls", s.shop.asked.Sub(made))
			}
			continue
		}
		label := fmt.Sprint("advice ", n)
		find := s.mongoFind(adviceHost, label, 1)
		find.attrs["connprof.query.selection"] = atLeast(least)
		selection := s.wait(adviceHost, "mongodb", least)
		selection.name = selectionName
		return []sight{{
			name: "A client that has just started", trace: trace, took: took,
			says: "This request made its client first. The driver chooses a server before it asks a pool, and knows none before its first heartbeat, which " +
				"has a connection of its own, with TLS of its own, to a server that was busy for 40 ms. Only then is the connection for the operation made.",
			want: served("/advice/{id}", id, selection, s.mongoSetup(adviceHost, label), find),
		}}, nil
	}
}

// served is the server span of a request, with what is under it.
func served(route, id string, children ...expected) expected {
	e := expected{
		name: "GET " + route, kind: "SERVER", children: children,
		attrs: conditions{
			"http.request.method": equal("GET"), "http.route": equal(route), "url.path": equal(pathOf(route, id)), "url.scheme": equal("http"),
			"http.response.status_code": equal[int64](http.StatusOK),
		},
	}
	for _, c := range children {
		e.least += c.least
	}
	return e
}

// selectName is the name of the span of a query of byID.
const selectName = "SELECT " + embedded.Table

// endpoint are the attributes that all spans of a connection have.
func (s *setup) endpoint(host, system string) conditions {
	port := int64(s.relays[host].port())
	return conditions{
		"connprof.connection.id": anyText, "db.system.name": equal(system), "server.address": equal(host), "server.port": equal(port),
		"network.peer.address": equal("127.0.0.1"), "network.peer.port": equal(port),
	}
}

// wait is a wait for a connection of host's pool.
func (s *setup) wait(host, system string, least time.Duration) expected {
	return expected{name: waitName, kind: "INTERNAL", attrs: s.endpoint(host, system), least: least}
}

// connection is the making of a connection with TLS 1.3 to host, by phases.
func (s *setup) connection(host, system, label string, background bool, phases ...expected) expected {
	attrs := s.endpoint(host, system)
	attrs.add(handshake).add(conditions{
		"network.transport": equal("tcp"), "connprof.connection.tls.duration": atLeast(networkDelay), "connprof.create.background": equal(background),
	})
	if tcpInfo {
		attrs.add(conditions{"connprof.tcp.rtt": atLeast(0), "connprof.tcp.retransmits": anyNumber})
	}
	e := expected{name: setupPrefix + s.address[host], kind: "INTERNAL", label: label, attrs: attrs, children: phases}
	for i := range phases {
		phases[i].kind = "INTERNAL"
		e.least += phases[i].least
	}
	return e
}

// handshake is what is known of one.
var handshake = conditions{
	"tls.protocol.name": equal("tls"), "tls.protocol.version": equal("1.3"), "tls.resumed": equal(false), "connprof.tls.hello_retry": equal(false),
	"tls.cipher": oneOf("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"),
	"tls.curve":  anyText, // which one is crypto/tls's choice
}

func resolvePhase(host string) expected {
	return expected{name: "resolve", least: lookupDelay, attrs: conditions{
		"dns.question.name": equal(host), "connprof.resolve.answers": equal[int64](1), "connprof.resolve.lookups": equal[int64](1),
	}}
}

func (s *setup) connectPhase(host string) expected {
	return expected{name: "connect", attrs: conditions{
		"network.transport": equal("tcp"), "network.peer.address": equal("127.0.0.1"), "network.peer.port": equal(int64(s.relays[host].port())),
	}}
}

func (s *setup) mysqlSetup(host, label string) expected {
	e := s.connection(host, "mysql", label, false,
		resolvePhase(host),
		s.connectPhase(host),
		expected{name: "greet"},
		expected{name: "tls", least: networkDelay, attrs: handshake.clone()},
		expected{name: "verify"},
		expected{name: "auth", least: networkDelay, attrs: conditions{
			"connprof.auth.turns": equal[int64](1), "connprof.auth.wait": atLeast(networkDelay),
		}, also: waitIsPart},
		expected{name: "setup", least: networkDelay},
	)
	e.attrs["db.namespace"] = equal(embedded.Database)
	// The server speaks as soon as it is connected to, which may be before connect has returned.
	e.least += networkDelay
	e.also = func(c *checker, got *span) {
		if connect, greet := got.child("connect"), got.child("greet"); connect != nil && greet != nil {
			if d := time.Duration(greet.end - connect.start); d < networkDelay {
				c.fail("connect and greet took %v, less than the %v that the greeting was held up", d, networkDelay)
			}
		}
	}
	return e
}

// waitIsPart: the rest of the login is the client's own computing.
func waitIsPart(c *checker, got *span) {
	if wait, _ := got.seconds("connprof.auth.wait"); wait > got.duration()+rounding {
		c.fail("%s: waited %v of %v", got.name, wait, got.duration())
	}
}

func (s *setup) mongoSetup(host, label string) expected {
	return s.connection(host, "mongodb", label, true,
		resolvePhase(host),
		s.connectPhase(host),
		expected{name: "tls", least: networkDelay, attrs: handshake.clone()},
		expected{name: "verify"},
		expected{name: "hello", least: networkDelay},
	)
}

// query is an operation on the connection with the label, the one with the index.
func (s *setup) query(host, system, label, name string, index int64) expected {
	e := expected{name: name, kind: "CLIENT", link: label, least: networkDelay, attrs: s.endpoint(host, system)}
	e.attrs.add(conditions{
		"db.namespace":               equal(embedded.Database),
		"connprof.connection.reused": equal(index > 1), "connprof.query.index": equal(index),
		"connprof.query.first_response": atLeast(networkDelay), "connprof.query.turns": equal[int64](1), "connprof.query.attempts": equal[int64](1),
		"connprof.connection.tls.duration": atLeast(networkDelay), "connprof.tls.amortized": atLeast(networkDelay / time.Duration(index)),
		"connprof.wait": atLeast(0), "connprof.queued": atLeast(0), "connprof.waited_for": equal("free"),
	})
	if index > 1 {
		e.attrs["connprof.connection.idle"] = atLeast(0)
		return e
	}
	least := lookupDelay + 2*networkDelay // the shortest create here
	e.attrs.add(conditions{
		"connprof.wait": atLeast(least), "connprof.connection.create": atLeast(least),
		"connprof.phase.resolve": atLeast(lookupDelay), "connprof.phase.connect": atLeast(0), "connprof.phase.tls": atLeast(networkDelay),
		"connprof.phase.verify": atLeast(0), "connprof.phase.other": atLeast(0),
	})
	return e
}

func (s *setup) mysqlQuery(host, label, name string, index int64) expected {
	e := s.query(host, "mysql", label, name, index)
	e.attrs.add(conditions{
		"db.operation.name": equal(name), "db.query.summary": equal(name), "connprof.query.sent": positive, "connprof.query.received": positive,
	})
	if name == selectName {
		e.attrs.add(conditions{
			"db.operation.name": equal("SELECT"), "db.collection.name": equal(embedded.Table), "db.query.text": equal(byID),
			"connprof.query.rows.driver": atLeast(0), "connprof.query.rows.consumer": atLeast(0),
		})
	}
	if index == 1 {
		e.attrs.add(conditions{
			"connprof.waited_for": equal("create"), "connprof.phase.greet": atLeast(0),
			"connprof.phase.auth": atLeast(networkDelay), "connprof.phase.setup": atLeast(networkDelay),
		})
	}
	return e
}

func (s *setup) mongoFind(host, label string, index int64) expected {
	e := s.query(host, "mongodb", label, "find "+embedded.Table, index)
	e.attrs.add(conditions{
		"db.operation.name": equal("find"), "db.collection.name": equal(embedded.Table), "connprof.query.selection": atLeast(0),
	})
	if index == 1 {
		e.attrs.add(conditions{"connprof.waited_for": equal("background_create"), "connprof.phase.hello": atLeast(networkDelay)})
	}
	return e
}
