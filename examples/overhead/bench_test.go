package main

import "testing"

func BenchmarkCalls(b *testing.B) {
	for _, c := range calls {
		for _, s := range subjects {
			b.Run(c.name+"/"+s.name, func(b *testing.B) {
				db, ctx := s.open(), s.ctx()
				defer db.Close()
				if err := c.prepare(ctx, db); err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for b.Loop() {
					if err := c.run(ctx, db); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkPgx(b *testing.B) {
	for _, c := range pgxCalls {
		for _, s := range pgxSubjects {
			b.Run(c.name+"/"+s.name, func(b *testing.B) {
				run, end, err := c.open(s)
				if err != nil {
					b.Fatal(err)
				}
				defer end()
				b.ReportAllocs()
				for b.Loop() {
					if err := run(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
