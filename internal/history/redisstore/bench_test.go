//go:build !race

package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb/redistest"
)

// openMeasured opens a store, and returns the address of its Redis. The returned function reports how
// many bytes this Redis uses.
func openMeasured(b *testing.B) (store *redisstore.Store, address string, used func() int64) {
	address = redistest.Server(b)
	client := redis.NewClient(&redis.Options{Addr: address})
	b.Cleanup(func() { _ = client.Close() })
	return redisstore.New(openDB(b, redistest.Place{Addresses: "redis://" + address}, "bench"), redisstore.Options{}), address, func() int64 {
		info := client.Info(b.Context(), "memory").Val()
		_, rest, _ := strings.Cut(info, "used_memory:")
		n, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
}

// BenchmarkWrite reports how many records are written per second in batches of 100. It also reports
// the cost of a record, and its size in Redis when the lists of its site and status are full.
func BenchmarkWrite(b *testing.B) {
	store, address, used := openMeasured(b)
	written := 0
	write := func(n int) {
		for n > 0 {
			batch := make([]history.Record, min(n, history.MostBatch))
			for i := range batch {
				written++
				id := captcha.ID(fmt.Sprintf("%032x", written%10))
				ended := time.Now().UTC().Truncate(time.Millisecond)
				batch[i] = history.Record{
					ID: fmt.Sprintf("%026d.%s", written, id), Identity: id, Target: fmt.Sprint("target-", written%10), Owner: "qa@example.com",
					Type: captcha.RecaptchaV2, Sitekey: fmt.Sprint("6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKh", written%10), Pageurl: "https://staging.example.com/login",
					Provider: "captchaai", Task: "74327409378", How: history.Solved, Placed: ended.Add(-20 * time.Second),
					Submitted: ended.Add(-20 * time.Second), Solved: ended.Add(-5 * time.Second), Ended: ended, Polls: 3, Price: 2_990_000,
				}
			}
			if err := store.Write(b.Context(), batch); err != nil {
				b.Fatal(err)
			}
			n -= len(batch)
		}
	}
	write(2000)
	before := used()
	b.ResetTimer()
	redistest.CostOf(b, address, 1, func(int) { write(b.N) }).Report(b, b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(used()-before)/float64(b.N), "B/record")
	b.ReportMetric(float64(before)/2000, "B/record-first-2000")
}

// BenchmarkWriteEntries reports how many audit entries are written per second in batches of 100. It
// also reports the cost of an entry, and its size in Redis. A key keeps 10,000 entries, so the benchmark uses one
// key for every 5,000 entries.
func BenchmarkWriteEntries(b *testing.B) {
	store, address, used := openMeasured(b)
	before, written := used(), 0
	write := func(int) {
		batch := make([]history.Entry, history.MostBatch)
		for i := range batch {
			batch[i] = history.Entry{
				ID: fmt.Sprintf("%026d", written), At: time.Now().UTC().Truncate(time.Millisecond), Key: fmt.Sprint("ci-", written/5000),
				Action: history.Taken, Target: fmt.Sprint("target-", written%10), Token: fmt.Sprintf("%026d.%026d", written, written), Source: "pool",
			}
			written++
		}
		if err := store.WriteEntries(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	redistest.CostOf(b, address, b.N, write).Report(b, history.MostBatch)
	b.StopTimer()
	b.ReportMetric(float64(written)/b.Elapsed().Seconds(), "entries/s")
	b.ReportMetric(float64(used()-before)/float64(written), "B/entry")
}
