package accuracy

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A packet is one TCP segment of a capture that shows each once, as the client saw it.
type packet struct {
	at            time.Duration // since 1970
	stream        int           // tshark's number of the connection
	fromClient    bool
	client        int    // the client's port
	server        string // the server's port
	syn, ack      bool
	size          int           // of the payload
	helloAt       time.Duration // set where the packet completes a ClientHello: the first packet that holds a part of it
	finished      bool          // holds a TLS Finished
	query         bool          // holds the beginning of a query
	retransmitted bool
}

// fields are what is asked of tshark, in the order in which parse takes them. tls.handshake.type, mysql.command and pgsql.type are of the
// decrypted content. tcp.segment lists the frames of a message that one segment could not hold: such a message is attributed to the last.
var fields = [...]string{
	"frame.number", "frame.time_epoch", "tcp.stream", "tcp.srcport", "tcp.dstport", "tcp.flags", "tcp.len", "tcp.segment",
	"tls.handshake.type", "mysql.command", "pgsql.type", "tcp.analysis.retransmission",
}

// dissect reads a capture with tshark. keyLog is a file in the format of tls.Config.KeyLogWriter; mysqlPort and postgresPort are the
// servers'.
func dissect(capture, keyLog, mysqlPort, postgresPort string) ([]packet, error) {
	args := []string{
		"-n", "-r", capture, "-o", "tls.keylog_file:" + keyLog,
		"-d", "tcp.port==" + mysqlPort + ",mysql", "-d", "tcp.port==" + postgresPort + ",pgsql",
		"-T", "fields", "-E", "separator=;", "-E", "occurrence=a", "-E", "aggregator=,",
	}
	for _, f := range fields {
		args = append(args, "-e", f)
	}
	cmd := exec.Command("tshark", args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("accuracy: tshark: %w\n%s", err, complaint.Bytes())
	}
	return parse(bytes.NewReader(out), mysqlPort, postgresPort)
}

// parse takes tshark's lines, one a packet, in the capture's order.
func parse(r io.Reader, serverPorts ...string) ([]packet, error) {
	var ps []packet
	times := map[string]time.Duration{} // of all frames
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		f := strings.Split(lines.Text(), ";")
		if len(f) != len(fields) {
			return nil, fmt.Errorf("accuracy: tshark: %d fields instead of %d in %q", len(f), len(fields), lines.Text())
		}
		p, err := parsePacket(f, serverPorts, times)
		if err != nil {
			return nil, fmt.Errorf("accuracy: tshark: %w in %q", err, lines.Text())
		}
		ps = append(ps, p)
	}
	return ps, lines.Err()
}

func parsePacket(f, serverPorts []string, times map[string]time.Duration) (p packet, err error) {
	number, from, to, segments, handshake, mysqlCommand, postgresType := f[0], f[3], f[4], f[7], f[8], f[9], f[10]
	if p.at, err = parseEpoch(f[1]); err != nil {
		return p, err
	}
	times[number] = p.at
	if p.stream, err = strconv.Atoi(f[2]); err != nil {
		return p, err
	}
	p.fromClient = slices.Contains(serverPorts, to)
	client := to
	if p.server = from; p.fromClient {
		client, p.server = from, to
	}
	if p.client, err = strconv.Atoi(client); err != nil {
		return p, err
	}
	flags, err := strconv.ParseUint(f[5], 0, 32)
	if err != nil {
		return p, err
	}
	p.syn, p.ack = flags&0x02 != 0, flags&0x10 != 0
	if p.size, err = strconv.Atoi(f[6]); err != nil {
		return p, err
	}
	messages := strings.Split(handshake, ",")
	p.finished = slices.Contains(messages, "20") // RFC 8446 §4
	if slices.Contains(messages, "1") {
		p.helloAt = p.at
		first, _, several := strings.Cut(segments, ",")
		if at, known := times[first]; several && known {
			p.helloAt = at
		}
	}
	p.query = p.fromClient && (slices.Contains(strings.Split(mysqlCommand, ","), "3") || // COM_QUERY
		strings.Contains(postgresType, "Bind") || strings.Contains(postgresType, "Simple query"))
	p.retransmitted = f[11] != ""
	return p, nil
}

// parseEpoch reads seconds with nine decimals, which a float64 could not hold.
func parseEpoch(s string) (time.Duration, error) {
	seconds, fraction, _ := strings.Cut(s, ".")
	a, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return 0, err
	}
	b, err := strconv.ParseInt((fraction + "000000000")[:9], 10, 64)
	return time.Duration(a)*time.Second + time.Duration(b), err
}
