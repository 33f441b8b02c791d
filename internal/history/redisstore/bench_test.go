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
	"poold/internal/pool/redistest"
)

// BenchmarkWrite tells records per second in batches of 100, and the bytes of Redis that
// a record costs once the lists of its site and status are full.
func BenchmarkWrite(b *testing.B) {
	address := redistest.Server(b)
	store := redisstore.New(archive(b, "redis://"+address, "bench", nil), redisstore.Options{})
	client := redis.NewClient(&redis.Options{Addr: address})
	defer func() { _ = client.Close() }()
	used := func() int64 {
		info := client.Info(b.Context(), "memory").Val()
		_, rest, _ := strings.Cut(info, "used_memory:")
		n, err := strconv.ParseInt(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		return n
	}
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
	write(b.N)
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(used()-before)/float64(b.N), "B/record")
	b.ReportMetric(float64(before)/2000, "B/record-first-2000")
}
