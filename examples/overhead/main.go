// Command overhead says what connprof costs beside other wrappers of database/sql, and what it costs with many connections:
//
//	go run .            the table of make overhead
//	go run . -scale     the numbers of make scale
//
// All is measured on a driver that does nothing, so that a difference is the wrapper's own.
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	scaling := flag.Bool("scale", false, "measure memory and cost by the number of connections instead")
	rounds := flag.Int("rounds", 60, "interleaved rounds")
	n := flag.Int("n", 2000, "calls a round")
	churn := flag.Int("churn", 1_000_000, "connections to open and close for -scale")
	flag.Parse()
	var err error
	if *scaling {
		err = scale(os.Stdout, *churn)
	} else {
		err = overhead(os.Stdout, *rounds, *n)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "overhead:", err)
		os.Exit(1)
	}
}
