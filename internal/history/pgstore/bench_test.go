//go:build !race

package pgstore

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/postgres/postgrestest"
)

// BenchmarkWrite reports how many records per second one writer and four writers insert in batches
// of 100. It also reports the size of a record in bytes, including its part of the indexes.
func BenchmarkWrite(b *testing.B) {
	for _, writers := range []int{1, 4} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			benchmark(b, writers, "captcha_solves", (*Store).Write, func(n int) history.Record {
				r := record(strconv.Itoa(n), time.Now())
				r.Target = fmt.Sprintf("target-%d", n%50)
				return r
			})
		})
	}
}

// BenchmarkWriteEntries reports the same values as BenchmarkWrite, but for audit entries and only
// for one writer.
func BenchmarkWriteEntries(b *testing.B) {
	benchmark(b, 1, "captcha_audit", (*Store).WriteEntries, func(n int) history.Entry {
		return history.Entry{
			ID: fmt.Sprintf("%026d", n), At: time.Now().UTC().Truncate(time.Millisecond), Key: fmt.Sprint("ci-", n%10),
			Action: history.Taken, Target: fmt.Sprint("target-", n%50), Token: fmt.Sprintf("%026d.%026d", n, n), Source: "pool",
		}
	})
}

func benchmark[E any](b *testing.B, writers int, table string, write func(*Store, context.Context, []E) error, element func(n int) E) {
	server := postgrestest.Start(b)
	address := server.Database(b)
	s, _ := openStore(b, address, postgrestest.Patience, 0)
	batches, done := make(chan []E, writers), make(chan error, writers)
	for range writers {
		go func() {
			var failed error
			for batch := range batches {
				if err := write(s, b.Context(), batch); err != nil {
					failed = err
				}
			}
			done <- failed
		}()
	}
	n := 0
	for b.Loop() {
		batch := make([]E, history.MostBatch)
		for i := range batch {
			batch[i] = element(n)
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
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "rows/s")
	size, err := strconv.ParseFloat(server.SQL(b, address, "select pg_total_relation_size('"+table+"')"), 64)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(size/float64(n), "B/row")
}
