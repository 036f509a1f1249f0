// Command overhead says what connprof costs beside other wrappers of database/sql, tracers of pgx and
// monitors of MongoDB clients, and what it costs with many connections:
//
//	go run .            the table of make overhead
//	go run . -scale     the numbers of make scale
//	go run . -h         what narrows the table
//
// All is measured on a driver that does nothing, pgx on a server that answers at once, MongoDB's monitors without one, so that a difference is the wrapper's own.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
)

func main() {
	scaling := flag.Bool("scale", false, "measure memory and cost by the number of connections instead")
	rounds := flag.Int("rounds", 60, "interleaved rounds")
	n := flag.Int("n", 2000, "calls a round")
	only := flag.String("calls", "", "measure only the calls whose names match this regular expression")
	of := flag.String("subjects", "", "and only these subjects; the bare one is always among them")
	churn := flag.Int("churn", 1_000_000, "connections to open and close for -scale")
	flag.Parse()
	var err error
	if *scaling {
		err = scale(os.Stdout, *churn)
	} else {
		if err = choose(*only, *of); err == nil {
			err = overhead(os.Stdout, *rounds, *n)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}

// choose narrows the table to what the expressions match.
func choose(only, of string) error {
	c, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-calls: %w", err)
	}
	s, err := regexp.Compile(of)
	if err != nil {
		return fmt.Errorf("-subjects: %w", err)
	}
	calls = slices.DeleteFunc(calls, func(x call) bool { return !c.MatchString(x.name) })
	bare := subjects[0].name
	subjects = slices.DeleteFunc(subjects, func(x subject) bool { return x.name != bare && !s.MatchString(x.name) })
	pgxCalls = slices.DeleteFunc(pgxCalls, func(x pgxCall) bool { return !c.MatchString(x.name) })
	barePgx := pgxSubjects[0].name
	pgxSubjects = slices.DeleteFunc(pgxSubjects, func(x pgxSubject) bool { return x.name != barePgx && !s.MatchString(x.name) })
	mongoCalls = slices.DeleteFunc(mongoCalls, func(x string) bool { return !c.MatchString(x) })
	if len(calls)+len(pgxCalls)+len(mongoCalls) == 0 {
		return fmt.Errorf("-calls: no call matches %q", only)
	}
	return nil
}
