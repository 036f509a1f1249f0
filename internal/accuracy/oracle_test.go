package accuracy

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// recorded is what tshark said of a connection to MariaDB and one to PostgreSQL at an emulated round-trip time of 10 ms. Each ClientHello
// takes two segments; PostgreSQL asks for a second one.
const recorded = "testdata/tshark_10ms.txt"

const mysqlPort, postgresPort = "40923", "46417" // of that recording

func readRecorded(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(recorded)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func truthsOf(t *testing.T, text string) []truth {
	t.Helper()
	ps, err := parse(strings.NewReader(text), mysqlPort, postgresPort)
	if err != nil {
		t.Fatal(err)
	}
	return truths(ps)
}

func TestTruthsOfARecording(t *testing.T) {
	const µs = time.Microsecond
	for i, want := range []struct {
		client                            int
		server                            string
		connect, greet, tls, verify, auth time.Duration
		queries                           []time.Duration
	}{
		{58484, mysqlPort, 10735*µs + 985, 10406*µs + 243, 12147*µs + 354, 28*µs + 407, 10653*µs + 480,
			[]time.Duration{10426*µs + 289, 10602*µs + 110, 10430*µs + 2, 10948*µs + 155}},
		{42192, postgresPort, 14792*µs + 133, 16062*µs + 858, 25439*µs + 943, 36*µs + 244, 39620*µs + 783,
			[]time.Duration{10755*µs + 716, 10482*µs + 323, 10413*µs + 906, 10471*µs + 131}},
	} {
		got := truthsOf(t, readRecorded(t))[i]
		var queries []time.Duration
		for _, q := range got.queries {
			queries = append(queries, q.took())
		}
		if got.client != want.client || got.server != want.server || got.connect.took() != want.connect || got.greet.took() != want.greet ||
			got.tls.took() != want.tls || got.verify.took() != want.verify || got.auth.took() != want.auth || !slices.Equal(queries, want.queries) {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if got.greet.begin != got.connect.end || got.verify.begin != got.tls.end || got.auth.begin != got.verify.end {
			t.Errorf("there are gaps in %+v", got)
		}
	}
}

func TestAConnectionThatIsNotWholeIsNoTruth(t *testing.T) {
	text := readRecorded(t)
	for _, tt := range []struct{ name, frame string }{
		{"no SYN", "127;"},
		{"no SYN and ACK", "131;"},
		{"no ClientHello", "137;"},
		{"no Finished", "144;"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var kept []string
			for line := range strings.Lines(text) {
				if !strings.HasPrefix(line, tt.frame) {
					kept = append(kept, line)
				}
			}
			if got := truthsOf(t, strings.Join(kept, "")); len(got) != 1 || got[0].server != postgresPort {
				t.Errorf("got %+v, want PostgreSQL's alone", got)
			}
		})
	}
}

func TestARetransmissionCountsUpToTheLastAnswer(t *testing.T) {
	text := readRecorded(t)
	for _, tt := range []struct {
		line string // a whole one but for its last field
		want bool
	}{
		{"\n136;1796086515.459146089;4;58484;40923;0x0010;1448;;;;;", true},
		{"\n159;1796086515.525451317;4;58484;40923;0x0011;0;;;;;", false},
	} {
		if !strings.Contains(text, tt.line+"\n") {
			t.Fatalf("no line %q", tt.line)
		}
		if got := truthsOf(t, strings.Replace(text, tt.line, tt.line+"1", 1))[0].retransmitted; got != tt.want {
			t.Errorf("with the frame%s repeated: retransmitted = %v, want %v", tt.line[:4], got, tt.want)
		}
	}
}

func TestWhatTsharkDoesNotSayIsRefused(t *testing.T) {
	for _, line := range []string{
		"",
		"Running as user root and group root. This could be dangerous.",
		"1;;4;58484;40923;0x0002;0;;;;;",
		"1;1796086515.437;x;58484;40923;0x0002;0;;;;;",
		"1;1796086515.437;4;;40923;0x0002;0;;;;;",
		"1;1796086515.437;4;58484;40923;SYN;0;;;;;",
		"1;1796086515.437;4;58484;40923;0x0002;;;;;;",
	} {
		if ps, err := parse(strings.NewReader(line+"\n"), mysqlPort); err == nil {
			t.Errorf("%q: %+v, want an error", line, ps)
		}
	}
}

func TestAnEpochKeepsItsNanoseconds(t *testing.T) {
	for _, tt := range []struct {
		text string
		want time.Duration
	}{
		{"1796086515.437462857", 1796086515437462857},
		{"1796086515.437462", 1796086515437462000}, // tshark shows as many decimals as the capture has
		{"1796086515", 1796086515000000000},
	} {
		if got, err := parseEpoch(tt.text); got != tt.want || err != nil {
			t.Errorf("%s: %d, %v; want %d", tt.text, got, err, tt.want)
		}
	}
}
