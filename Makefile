# make test   all that must hold: servers, lint, tests, bounds, quickstart. Needs Go, git, make and a C compiler.
# make lint   formatting, vet and staticcheck, in every module
# make ci-jaeger  spans as a real Jaeger has them, a fleet's metrics behind a Collector; both are built first: minutes once
# make fuzz   each fuzz target for FUZZTIME (1m)
# make faults connections broken at every byte while they are made, against real servers
# make timing bounds on time, for an idle machine
# make accuracy  connprof's times against a packet capture of real connections: Linux, root, tcpdump and tshark
# make suite-mysql  the MySQL driver's own tests, bare and with connprof underneath: the same must pass and fail
# make fidelity  every combination of a driver's optional interfaces, bare and wrapped; a part of it is in make test
# make suite-pgx  pgx's own tests that need a server, in the same way
# make overhead  what connprof costs beside other wrappers of database/sql and tracers of pgx; for an idle machine
# make scale  its memory per connection, its cost by their number, and the heap after a million of them
# make bench  all benchmarks, for benchstat: make -s bench >new.txt; go tool -modfile=tools/go.mod benchstat old.txt new.txt

GO    ?= go
COUNT ?= 6
BENCH ?= .
FUZZTIME ?= 1m

# The modules with packages of their own; each has a go.mod. The race detector looks at RACE_MODULES; the others mostly
# compile other people's servers, which takes minutes longer with it and tells nothing about this project.
RACE_MODULES  := .
PLAIN_MODULES := examples examples/overhead examples/prometheus examples/jaeger examples/fleet
# Compiles for minutes and has no tests: not part of make test.
HEAVY_MODULES := examples/fleet/collector
MODULES       := $(RACE_MODULES) $(PLAIN_MODULES) $(HEAVY_MODULES)

# The examples that build other people's servers, from modules of their own, and check what arrives there.
CI_CHECKS := jaeger fleet

STATICCHECK := $(GO) tool -modfile=$(CURDIR)/tools/go.mod staticcheck
TESTFLAGS   := -timeout 10m

# What is being done goes to standard error: the benchmarks' standard output is data.
say = @printf '\n== %s\n' '$(1)' >&2

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: all test lint bench fuzz faults accuracy servers format tidy-check bounds quickstart
.PHONY: suite-mysql suite-pgx fidelity overhead scale timing ci-jaeger $(CI_CHECKS:%=ci-check/%)
.PHONY: $(MODULES:%=lint-module/%) $(MODULES:%=test-module/%) $(MODULES:%=bench-module/%)

all: test

# In order, what fails fast first: the root module is done before the examples' dependencies are compiled. Each command
# works alone, too; tests that miss a server then skip, unless CONNPROF_REQUIRE_SERVERS=1 is in the environment.
test: export CONNPROF_REQUIRE_SERVERS = 1
test: format servers \
		$(RACE_MODULES:%=lint-module/%) $(RACE_MODULES:%=test-module/%) bounds \
		$(PLAIN_MODULES:%=lint-module/%) $(PLAIN_MODULES:%=test-module/%) quickstart suite-mysql
	$(call say,all passed)

lint: format $(MODULES:%=lint-module/%)

format:
	$(call say,gofmt)
	@files=$$(gofmt -l .) || exit 1; \
	if [ -n "$$files" ]; then printf 'not formatted (gofmt -w):\n%s\n' "$$files" >&2; exit 1; fi

$(MODULES:%=lint-module/%): lint-module/%:
	$(call say,vet and staticcheck: $*)
	$(GO) -C $* vet ./...
	cd $* && $(STATICCHECK) ./...

servers:
	$(call say,servers for the tests)
	scripts/install-test-servers.sh

$(RACE_MODULES:%=test-module/%): test-module/%:
	$(call say,tests with the race detector: $*)
	$(GO) -C $* test -race $(TESTFLAGS) ./...

$(PLAIN_MODULES:%=test-module/%): test-module/%:
	$(call say,tests: $*)
	$(GO) -C $* test $(TESTFLAGS) ./...

# Tests of numbers and allocations are named TestBounds…, skip themselves under the race detector, and are run one package
# at a time and afresh.
bounds:
	$(call say,bounds on numbers and allocations)
	$(GO) test -run Bounds -p 1 -count 1 $(TESTFLAGS) ./...

# Bounds on time are for an idle machine, so that a busy one can't fail make test.
timing: export CONNPROF_REQUIRE_SERVERS = 1
timing: servers
	$(call say,bounds on time)
	CONNPROF_TIMING=1 $(GO) test -v -run 'Timing|BoundsOf' -p 1 -count 1 $(TESTFLAGS) ./handshake ./pool/...

quickstart:
	$(call say,quickstart)
	$(GO) -C examples run ./quickstart -iterations 10 -json >/dev/null

# Each ends with a line that says what was checked and what failed. Not part of test: where the servers are not in the user's cache, they
# are built, which takes minutes: all of it twelve on two cores from an empty build cache, in which make test would leave the examples' part.
ci-jaeger: $(CI_CHECKS:%=ci-check/%)

$(CI_CHECKS:%=ci-check/%): ci-check/%:
	$(call say,checked from outside: $*)
	$(GO) -C examples/$* run . -check

# One target after the other: each uses all cores. An input that fails is kept in the package's testdata/fuzz; a run that ends with
# "context deadline exceeded" and keeps none was cut off by the end of FUZZTIME, which is no finding.
fuzz:
	@log=$$(mktemp); trap 'rm -f $$log' EXIT; \
	for p in $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./...); do \
		for f in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' $$p/*_test.go); do \
			printf '\n== fuzz %s in %s for $(FUZZTIME)\n' $$f $${p#$(CURDIR)/} >&2; \
			$(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 5s $$p >$$log 2>&1; status=$$?; tail -n 40 $$log; \
			if [ $$status -ne 0 ] && { grep -q testdata/fuzz $$log || ! grep -q 'context deadline exceeded' $$log; }; then exit 1; fi; \
		done; \
	done

# Prints runs, differences and misattributions of each driver, and fails unless the last two are 0. A part of it is in make test.
faults: export CONNPROF_REQUIRE_SERVERS = 1
faults: servers
	$(call say,faults at every byte of an establishment)
	$(GO) test -v -count 1 -run 'FaultsOfAnEstablishment' -timeout 20m ./internal/faultrelay -faults.every 1

# Prints the differences of each phase, and fails where the median of one is beyond its bound. The bounds are for an idle machine. Says what
# is missing where it can't measure; scripts/install-accuracy-tools.sh installs tcpdump and tshark.
accuracy:
	$(call say,accuracy against a packet capture)
	CONNPROF_ACCURACY=1 $(GO) test -count 1 -v -run '^TestAccuracy$$' $(TESTFLAGS) ./internal/accuracy

# End with the line "suite-mysql: bare P/F/S wrapped P/F/S differences N", and "suite-pgx: …". pgx's tests wait a lot: a few minutes, and not
# part of test.
suite-mysql suite-pgx: suite-%: servers
	$(call say,tests of the driver itself: $*)
	@log=$$(mktemp) || exit 1; trap 'rm -f "$$log"' EXIT; \
	CONNPROF_SUITE=1 CONNPROF_REQUIRE_SERVERS=1 $(GO) test -v -count 1 -run '^TestSuite$$' -timeout 30m ./internal/$*suitetest >"$$log" 2>&1; \
	status=$$?; grep -v -e '^suite-$*: ' -e '^=== ' -e '^PASS$$' -e '^ok ' "$$log"; grep '^suite-$*: ' "$$log" || exit 1; exit $$status

fidelity:
	$(call say,every combination of optional interfaces)
	CONNPROF_FIDELITY=long $(GO) test -v -count 1 -timeout 30m ./internal/fidelitytest

overhead:
	$(call say,overhead)
	@$(GO) -C examples/overhead run .

scale:
	$(call say,scale)
	@$(GO) -C examples/overhead run . -scale

bench: $(MODULES:%=bench-module/%)

$(MODULES:%=bench-module/%): bench-module/%:
	$(call say,benchmarks: $*)
	@$(GO) -C $* test -run '^$$' -bench '$(BENCH)' -benchmem -count=$(COUNT) -timeout 60m ./...

# Not part of test: it asks the module proxy.
tidy-check:
	$(call say,go mod tidy -diff)
	@status=0; for m in $(MODULES) tools $(wildcard examples/*/tools); do $(GO) -C $$m mod tidy -diff || status=1; done; exit $$status
