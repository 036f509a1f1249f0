package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"
)

// A series is one native histogram of a scrape.
type series struct {
	labels labels.Labels
	h      *histogram.FloatHistogram
}

// An exposition is what one scrape brought.
type exposition struct {
	at     time.Time
	series []series
}

// accept is what Prometheus asks for; only this format has native histograms.
const accept = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"

// scrape gets the native histograms that are exposed at address, as Prometheus does and with its parser.
func scrape(ctx context.Context, address string) (*exposition, error) {
	body, contentType, err := get(ctx, "http://"+address+"/metrics")
	if err != nil {
		return nil, fmt.Errorf("fleet: scrape: %w", err)
	}
	p, err := textparse.New(body, contentType, labels.NewSymbolTable(), textparse.ParserOptions{})
	if err != nil {
		return nil, fmt.Errorf("fleet: scrape: %w", err)
	}
	e := exposition{at: time.Now().Truncate(time.Millisecond)} // Prometheus counts time in milliseconds
	for {
		entry, err := p.Next()
		if errors.Is(err, io.EOF) {
			return &e, nil
		}
		if err != nil {
			return nil, fmt.Errorf("fleet: scrape: %w", err)
		}
		if entry != textparse.EntryHistogram {
			continue
		}
		var s series
		p.Labels(&s.labels)
		_, _, h, fh := p.Histogram()
		if s.h = fh; h != nil {
			s.h = h.ToFloat(nil)
		}
		e.series = append(e.series, s)
	}
}

func get(ctx context.Context, url string) (body []byte, contentType string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, "", err
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, "", errors.New(resp.Status)
	}
	body, err = io.ReadAll(resp.Body)
	return body, resp.Header.Get("Content-Type"), err
}
