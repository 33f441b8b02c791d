//go:build !race

package dynamostore

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/history"
	"poold/internal/history/dynamotest"
)

// BenchmarkWrite measures how many records the emulator accepts per second, both for new and for
// repeated records.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1, 10, history.MostBatch} {
		b.Run(fmt.Sprint("batches of ", size), func(b *testing.B) {
			s, _ := openThrough(b, func(string, []byte) dynamotest.Fate { return dynamotest.Fate{} })
			written := 0
			for b.Loop() {
				if err := s.Write(b.Context(), records(yesterday().Add(time.Duration(written)*time.Millisecond), size)); err != nil {
					b.Fatal(err)
				}
				written += size
			}
			b.ReportMetric(float64(written)/b.Elapsed().Seconds(), "records/s")
		})
	}
	b.Run("batches of 100 that are there", func(b *testing.B) {
		s, _ := openThrough(b, func(string, []byte) dynamotest.Fate { return dynamotest.Fate{} })
		batch := records(yesterday(), 100)
		if err := s.Write(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
		written := 0
		for b.Loop() {
			if err := s.Write(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			written += 100
		}
		b.ReportMetric(float64(written)/b.Elapsed().Seconds(), "records/s")
	})
}
