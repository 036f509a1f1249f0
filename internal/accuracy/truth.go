package accuracy

import "time"

// A span is a part of a connection's life, from begin to end, both since 1970.
type span struct{ begin, end time.Duration }

func (s span) took() time.Duration { return s.end - s.begin }

// A truth is what the packets show of one connection. Phases begin and end as connprof's do, with the packet in place of the call that
// wrote or read it.
type truth struct {
	client        int    // the client's port
	server        string // the server's port
	connect       span
	greet         span // the server's SYN and ACK → its first data
	tls           span // first byte of the ClientHello → the client's Finished, the end in TLS 1.3
	verify        span // → the client's first data after its Finished
	auth          span // → the server's last before the first query
	queries       []span
	retransmitted bool // before the last query's answer
}

// truths finds the connections that a capture shows whole, from SYN to a first query that was answered.
func truths(ps []packet) []truth {
	var order []int
	streams := map[int][]packet{}
	for _, p := range ps {
		if _, seen := streams[p.stream]; !seen {
			order = append(order, p.stream)
		}
		streams[p.stream] = append(streams[p.stream], p)
	}
	var ts []truth
	for _, s := range order {
		if t, whole := truthOf(streams[s]); whole {
			ts = append(ts, t)
		}
	}
	return ts
}

// truthOf takes the packets of one connection.
func truthOf(ps []packet) (t truth, whole bool) {
	t.client, t.server = ps[0].client, ps[0].server
	// Instants, 0 until seen. A request's answer ends with the server's last data before the client's next.
	var syn, accepted, greeted, hello, finished, login, answered, query time.Duration
	asked, repeated := false, false
	end := func() {
		if query != 0 && answered > query {
			t.queries = append(t.queries, span{query, answered})
			t.retransmitted = repeated
		}
		query = 0
	}
	for _, p := range ps {
		repeated = repeated || p.retransmitted
		switch {
		case p.syn && !p.ack:
			syn = p.at
		case p.syn:
			accepted = p.at
		case p.size == 0:
		case !p.fromClient:
			answered = p.at
			if greeted == 0 {
				greeted = p.at
			}
		case finished == 0:
			if hello == 0 {
				hello = p.helloAt
			}
			if p.finished {
				finished = p.at
			}
		default:
			end()
			if login == 0 {
				login = p.at
			}
			if p.query && !asked {
				asked = true
				t.auth = span{login, answered}
			}
			if p.query {
				query = p.at
			}
		}
	}
	end()
	t.connect, t.greet, t.tls, t.verify = span{syn, accepted}, span{accepted, greeted}, span{hello, finished}, span{finished, login}
	return t, syn != 0 && accepted != 0 && hello != 0 && finished != 0 && t.auth.took() > 0 && len(t.queries) > 0
}
