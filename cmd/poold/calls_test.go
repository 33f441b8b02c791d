package main

import (
	"net/http"
	"testing"
	"time"
)

// BenchmarkCallsPerToken reports how many calls to the provider each token needs, according to the
// daemon's metrics. The calls are the submit, and the polls until the token is collected. Lead
// times are lognormal around 600 ms. The first poll comes after 500 ms, and the next polls every
// 170 ms. All these times are a thirtieth of the usual times.
func BenchmarkCallsPerToken(b *testing.B) {
	for _, callbacks := range []bool{false, true} {
		name, with := "polling", terms{depth: 20, pace: "first_poll: 500ms, poll_interval: 170ms"}
		var door *callbackDoor
		if callbacks {
			name = "callbacks"
			door = newCallbackDoor(b)
			with.provider = `, callback_url: "` + door.url + `"`
		}
		b.Run(name, func(b *testing.B) {
			w := newWorld(b, quick(), with)
			p := w.start(b)
			door.setReplicas(p)
			for range b.N {
				if _, code, err := p.take(b.Context(), http.DefaultClient, "login", "?wait=20s"); code != http.StatusOK {
					b.Fatal(code, err)
				}
			}
			w.atRest(b, p, 30*time.Second)
			m := p.metrics()
			b.ReportMetric(m["poold_provider_requests_total"]/m["poold_solved_total"], "calls/token")
		})
	}
}
