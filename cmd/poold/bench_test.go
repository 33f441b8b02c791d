package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
	"poold/internal/provider/simulated"
	"poold/internal/redisdb/redistest"
)

// BenchmarkHandOut sends requests for ready tokens, one after another: for a target, and for a
// guest through /solve.
func BenchmarkHandOut(b *testing.B) {
	address := redistest.Server(b)
	w := newWorld(b, simulated.Options{}, terms{top: buying, redis: "redis://" + address})
	p := w.start(b)
	client := redis.NewClient(&redis.Options{Addr: address})
	b.Cleanup(func() { _ = client.Close() })
	page := func(name string) string { return "https://example.com/" + name }
	for _, way := range []struct{ name, page string }{{"token", ""}, {"solve", "guest"}} {
		b.Run(way.name, func(b *testing.B) {
			id := captcha.Identity{Type: captcha.Turnstile, Sitekey: "1x00000000000000000000AA", Pageurl: page(way.page)}.ID()
			key := "world:pool:{" + string(id) + "}"
			born := time.Now()
			for first := 0; first < b.N; first += 1000 {
				var elements []any
				for i := first; i < min(first+1000, b.N); i++ {
					elements = append(elements, fmt.Sprintf("%d|%d|O%d|service||%s", born.Add(300*time.Second).UnixMilli(), born.UnixMilli(), i, strings.Repeat("x", 600)))
				}
				if err := client.RPush(b.Context(), key, elements...).Err(); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			for range b.N {
				var source string
				var code int
				if way.name == "token" {
					h, status, err := p.take(b.Context(), http.DefaultClient, "login", "?wait=0s")
					source, code = h.Source, status
					if err != nil {
						b.Fatal(err)
					}
				} else {
					a, status, err := p.solve(b.Context(), http.DefaultClient, guest(way.page))
					source, code = a.Source, status
					if err != nil {
						b.Fatal(err)
					}
				}
				if code != http.StatusOK || source != "pool" {
					b.Fatalf("%d %s", code, source)
				}
			}
		})
	}
}
