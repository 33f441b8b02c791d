package pool

import (
	"fmt"
	"runtime"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/redisdb/redistest"
)

// fill pushes n tokens of 600 bytes into the list.
func fill(b *testing.B, s *replica, list string, n int) {
	b.Helper()
	now := time.Now()
	element := fmt.Sprintf("%d|%d|x|bench||%0600d", now.Add(time.Hour).UnixMilli(), now.UnixMilli(), 0)
	for n > 0 {
		pipe := s.db.Slow.Pipeline()
		for range min(n, 1000) {
			pipe.RPush(b.Context(), list, element)
			n--
		}
		if _, err := pipe.Exec(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTakeAtLowLoad compares the takes of a single caller with bare LPOP commands through the
// same client. Takes and LPOPs alternate. The benchmark reports both medians.
func BenchmarkTakeAtLowLoad(b *testing.B) {
	s, id := open(b, Options{Addresses: "redis://" + redistest.Server(b), Prefix: "bench"}), captcha.ID("bench")
	fill(b, s, s.keys(id).tokens, b.N)
	fill(b, s, "plain", b.N)
	takes, pops := make([]time.Duration, 0, b.N), make([]time.Duration, 0, b.N)
	b.ResetTimer()
	for range b.N {
		began := time.Now()
		if _, err := s.Take(b.Context(), Request{ID: id}); err != nil {
			b.Fatal(err)
		}
		takes = append(takes, time.Since(began))
		began = time.Now()
		if err := s.db.Hot.LPop(b.Context(), "plain").Err(); err != nil {
			b.Fatal(err)
		}
		pops = append(pops, time.Since(began))
	}
	b.ReportMetric(median(takes), "take-p50-µs")
	b.ReportMetric(median(pops), "lpop-p50-µs")
}

// BenchmarkTakesTogether measures takes of 64 concurrent callers.
func BenchmarkTakesTogether(b *testing.B) {
	s, id := open(b, Options{Addresses: "redis://" + redistest.Server(b), Prefix: "bench"}), captcha.ID("bench")
	fill(b, s, s.keys(id).tokens, b.N)
	b.SetParallelism(32) // the number is multiplied by GOMAXPROCS
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := s.Take(b.Context(), Request{ID: id}); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

// BenchmarkLook measures a look at five tokens.
func BenchmarkLook(b *testing.B) {
	s := open(b, Options{Addresses: "redis://" + redistest.Server(b), Prefix: "bench"})
	id := captcha.ID("look")
	fill(b, s, s.keys(id).tokens, 5)
	looks := make([]time.Duration, 0, b.N)
	for b.Loop() {
		began := time.Now()
		look(b, s, id)
		looks = append(looks, time.Since(began))
	}
	b.ReportMetric(median(looks), "look-p50-µs")
}

func median(d []time.Duration) float64 {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	return float64(d[len(d)/2].Nanoseconds()) / 1000
}

// BenchmarkGuests measures the whole life of b.N guests in the store: request, order, landing, take
// and retirement. The benchmark reports how many keys remain in Redis, and how many bytes of heap
// remain in this process. The tokens live for one second.
func BenchmarkGuests(b *testing.B) {
	addr := redistest.Server(b)
	s := open(b, Options{Addresses: "redis://" + addr, Prefix: "bench"})
	s.Guests.most = b.N + 1
	size := func() (keys int64, heap uint64) {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return s.db.Slow.DBSize(b.Context()).Val(), m.HeapInuse
	}
	keysBefore, heapBefore := size()
	var next atomic.Int64
	b.SetParallelism(16) // the number is multiplied by GOMAXPROCS
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			guest := "guest" + strconv.FormatInt(next.Add(1), 10)
			id := identity(guest)
			use(b, s, id)
			place(b, s, id, guest)
			land(b, s, id, guest, 0, time.Second)
			if _, err := s.Take(b.Context(), Request{ID: id}); err != nil && !isEmpty(err) {
				b.Error(err)
				return
			}
			makeDue(b, s, id) // as if guestUnused had passed
			if next.Load()%guestBatch == 0 {
				if _, err := s.Guests.Retire(b.Context(), noTargets); err != nil {
					b.Error(err)
				}
			}
		}
	})
	b.StopTimer()
	for listed(b, s) > 0 {
		time.Sleep(time.Second) // until the tokens that were not taken are dead and the leases of guests have expired
		for _, id := range s.db.Slow.ZRange(b.Context(), s.guests().guests, 0, -1).Val() {
			makeDue(b, s, captcha.ID(id))
		}
		if _, err := s.Guests.Retire(b.Context(), noTargets); err != nil {
			b.Error(err)
		}
	}
	if got := survey(b, s); got.Figures.Solved != int64(b.N) {
		b.Errorf("%d of %d are counted", got.Figures.Solved, b.N)
	}
	s.forget(time.Now().Add(time.Hour), queueIdle)
	// Reports are accepted for 15 min after the death of a token. The benchmark does not wait so
	// long.
	left := 0
	for it := s.db.Slow.Scan(b.Context(), 0, "bench:*", 10_000).Iterator(); it.Next(b.Context()); {
		if key := it.Val(); !strings.Contains(key, ":sold:") && !strings.Contains(key, ":last:") && !strings.Contains(key, ":values:") {
			left++
		}
	}
	keys, heap := size()
	b.ReportMetric(float64(left), "keys-left")
	b.ReportMetric(float64(keys-keysBefore)/float64(b.N), "keys-that-expire/guest")
	b.ReportMetric(float64(int64(heap)-int64(heapBefore))/float64(b.N), "heap-B/guest")
}

// BenchmarkLandings places orders and lands their tokens, one after another. It runs with and
// without storing the ended orders.
func BenchmarkLandings(b *testing.B) {
	for name, most := range map[string]int{"no history": 0, "history": 1 << 30} {
		b.Run(name, func(b *testing.B) {
			s := open(b, Options{Addresses: "redis://" + redistest.Server(b), Endings: most, Prefix: "landings"})
			facts := Facts{
				Target: "staging-login", Owner: "qa@example.com", Provider: "captchaai", Account: "0123456789abcdef", LifetimeMS: 120000,
				Identity: captcha.Identity{Type: captcha.RecaptchaV2, Sitekey: "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", Pageurl: "https://staging.example.com/login"},
			}
			for i := range b.N {
				id := identity(fmt.Sprint("landings ", i%100))
				ref := Ref{id, fmt.Sprint("o", i)}
				if got, err := s.Place(b.Context(), Order{Ref: ref, Depth: 1 << 20, TTL: time.Minute, Facts: facts}); err != nil || !got.Placed {
					b.Fatal(got, err)
				}
				if how, err := s.Settle(b.Context(), Landing{Ref: ref, Provider: "p", Value: ref.Order, Lifetime: time.Second}); err != nil || how != Ended {
					b.Fatal(how, err)
				}
				if i%100 == 99 { // removes the ends, as the history does
					for n := range 100 {
						s.db.Slow.Del(b.Context(), s.keys(identity(fmt.Sprint("landings ", n))).ended)
					}
				}
			}
		})
	}
}

// BenchmarkSurveyWithTheHour surveys 10,000 identities, as a request for the status does. The
// benchmark compares a survey without the last hour, a survey of idle identities, and a survey of
// identities with events in each minute. The benchmark reports the time per identity.
func BenchmarkSurveyWithTheHour(b *testing.B) {
	const identities, part = 10_000, 50
	for name, c := range map[string]struct{ told, busy bool }{"not-told": {}, "rest": {told: true}, "busy": {told: true, busy: true}} {
		b.Run(name, func(b *testing.B) {
			s := open(b, Options{Addresses: "redis://" + redistest.Server(b), Prefix: "bench"})
			queries := make([]Query, identities)
			for i := range queries {
				queries[i] = Query{ID: captcha.ID(strconv.Itoa(i)), Hour: c.told, Keep: true}
			}
			minute := time.Now().Unix() / 60
			each := func(do func(pipe redis.Pipeliner, k keys)) {
				for some := range slices.Chunk(queries, 1000) {
					pipe := s.db.Slow.Pipeline()
					for _, q := range some {
						do(pipe, s.keys(q.ID))
					}
					if _, err := pipe.Exec(b.Context()); err != nil {
						b.Fatal(err)
					}
				}
			}
			if c.busy {
				each(func(pipe redis.Pipeliner, k keys) {
					text := "0 0 0 0 0 0"
					for i := range int64(59) {
						text += fmt.Sprintf("|%d 120 110 5 5 115 112", minute-i)
					}
					pipe.Set(b.Context(), k.hour, text, time.Hour)
				})
			}
			for b.Loop() {
				if c.busy {
					b.StopTimer()
					each(func(pipe redis.Pipeliner, k keys) { pipe.HIncrBy(b.Context(), k.stats, "requests", 1) })
					b.StartTimer()
				}
				for some := range slices.Chunk(queries, part) {
					if _, err := s.LookAll(b.Context(), some); err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/identities, "µs/identity")
		})
	}
}
