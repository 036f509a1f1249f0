package pool

import (
	"testing"

	"github.com/connprof/connprof/profiler"
)

// C05 with database/sql: a DB for each piece of work. No pool shows anything, the target's counts do.
func TestADBForEachCallIsFound(t *testing.T) {
	p := new(profiler.Profiler)
	for range 25 {
		db := OpenDB(p, &Connector{
			Connector: &fake{has: everything}, Profiler: p, Endpoint: profiler.Endpoint{System: "mysql", Address: "db:3306"},
		})
		if _, err := db.Exec("x"); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := p.Report()
	e := r.Endpoint("db:3306", profiler.RolePool)
	first, reused := e.Queries()
	if e.Created != 25 || e.Live != 0 || first != 25 || reused != 0 || e.ClosedBy["pool_closed"] != 25 {
		t.Errorf("%d created, %d live, %d first, %d reused, closed %v", e.Created, e.Live, first, reused, e.ClosedBy)
	}
	if w := r.Pools[0]; w.Name != "db:3306" || w.Opened != 25 || w.Live != 0 {
		t.Errorf("pool %+v", w)
	}
	for _, f := range r.Findings {
		if f.ID == "pool_churn" {
			if f.Advice != "build the client once and share it" {
				t.Errorf("finding %+v", f)
			}
			return
		}
	}
	t.Errorf("findings %+v", r.Findings)
}
