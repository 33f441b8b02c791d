//go:build !race

package redisstore_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"poold/internal/captcha"
	"poold/internal/history"
	"poold/internal/history/redisstore"
	"poold/internal/redisdb/redistest"
	"poold/internal/testkit"
)

// BenchmarkAppend reports the cost of a row in batches of 100, and its size in Redis while the lists are not full.
func BenchmarkAppend(b *testing.B) {
	for name, row := range map[string]func(n int, at time.Time) history.Row{
		"orders": func(n int, at time.Time) history.Row {
			o := history.Order{
				ID: fmt.Sprintf("%026d", n), Target: fmt.Sprint("target-", n%10), Owner: "qa@example.com", Type: captcha.RecaptchaV2,
				Sitekey: fmt.Sprint("6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKh", n%10), Pageurl: "https://staging.example.com/login",
				Provider: "captchaai", Task: "74327409378", Status: history.StatusSolved, Outcome: history.Solved,
				PlacedAt: history.Time{Time: at.Add(-20 * time.Second)}, SubmittedAt: history.Time{Time: at.Add(-20 * time.Second)},
				SolvedAt: history.Time{Time: at.Add(-5 * time.Second)}, EndedAt: history.Time{Time: at}, ElapsedMS: 20_000, Polls: 3, Price: 2_990_000,
			}
			return o.Row()
		},
		"hand-outs": func(n int, at time.Time) history.Row {
			h := history.Handout{
				ID: fmt.Sprintf("%d-%d", at.UnixMilli(), n), At: history.Time{Time: at}, Key: fmt.Sprint("ci-", n/5000), Action: history.Taken,
				Target: fmt.Sprint("target-", n%10), Order: fmt.Sprintf("%026d", n), Source: "pool",
			}
			return h.Row()
		},
	} {
		b.Run(name, func(b *testing.B) {
			address := redistest.Server(b)
			store, written := redisstore.New(openDB(b, redistest.Place{Addresses: "redis://" + address}, "bench"), redisstore.Options{}), 0
			write := func(int) {
				batch := make([]history.Row, history.MostBatch)
				for i := range batch {
					batch[i] = row(written, time.Now().UTC().Truncate(time.Millisecond))
					written++
				}
				testkit.NoError(b, store.Append(b.Context(), batch))
			}
			used := func() float64 {
				_, rest, _ := strings.Cut(redistest.Do(b, address, "INFO", "memory"), "used_memory:")
				n, err := strconv.ParseFloat(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 64)
				testkit.NoError(b, err)
				return n
			}
			write(0)
			before := used()
			b.ResetTimer()
			redistest.Report(b, address, history.MostBatch, write)
			b.ReportMetric((used()-before)/float64(b.N*history.MostBatch), "B/row")
		})
	}
}
