//go:build !race

package pgstore

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/postgres/postgrestest"
)

// How many records a second are written in batches of 100, by one writer and by four, and
// how many bytes a record takes with its part of the indexes.
func BenchmarkWrite(b *testing.B) {
	server := postgrestest.Start(b)
	for _, writers := range []int{1, 4} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			address := server.Database(b)
			s, _ := opened(b, address, patient, 0)
			batches := make(chan []history.Record, writers)
			done := make(chan error, writers)
			for range writers {
				go func() {
					var failed error
					for batch := range batches {
						if err := s.Write(b.Context(), batch); err != nil {
							failed = err
						}
					}
					done <- failed
				}()
			}
			n := 0
			for b.Loop() {
				batch := make([]history.Record, history.MostBatch)
				for i := range batch {
					batch[i] = record(strconv.Itoa(n), time.Now())
					batch[i].Target = fmt.Sprintf("target-%d", n%50)
					n++
				}
				batches <- batch
			}
			close(batches)
			for range writers {
				if err := <-done; err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "records/s")
			size, err := strconv.ParseFloat(server.SQL(b, address, "select pg_total_relation_size('captcha_solves')"), 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(size/float64(n), "B/record")
		})
	}
}

// How many entries of the audit a second are written in batches of 100, and how many bytes
// an entry takes with its part of the indexes.
func BenchmarkWriteEntries(b *testing.B) {
	server := postgrestest.Start(b)
	address := server.Database(b)
	s, _ := opened(b, address, patient, 0)
	n := 0
	for b.Loop() {
		batch := make([]history.Entry, history.MostBatch)
		for i := range batch {
			batch[i] = history.Entry{
				ID: fmt.Sprintf("%026d", n), At: time.Now().UTC().Truncate(time.Millisecond), Key: fmt.Sprint("ci-", n%10),
				Action: history.Taken, Target: fmt.Sprint("target-", n%50), Token: fmt.Sprintf("%026d.%026d", n, n), Source: "pool",
			}
			n++
		}
		if err := s.WriteEntries(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "entries/s")
	size, err := strconv.ParseFloat(server.SQL(b, address, "select pg_total_relation_size('captcha_audit')"), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(size/float64(n), "B/entry")
}
