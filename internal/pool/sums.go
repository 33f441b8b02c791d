package pool

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
)

// Sums are exponentially weighted sums of the results of a provider's orders for a type. The script function tally
// changes them. Their names are
//
//	recent                          ended orders; their weight falls only with time
//	order:ended, order:solved       orders
//	order:leads, order:squares      lead times of solved orders in ms, and their squares
//	report:accepted:CALLER, report:rejected:CALLER
//	at                              not a sum: the time of the last outcome
type Sums map[string]float64

// Sums reads the sums of providers, by type and provider, as of now. A provider without outcomes has empty Sums.
func (p *Pool) Sums(ctx context.Context, providers []string) (all map[captcha.Type]map[string]Sums, err error) {
	var clock *redis.TimeCmd
	hashes := map[captcha.Type][]*redis.MapStringStringCmd{}
	err = p.pipelined(ctx, func(pipe redis.Pipeliner) {
		clock = pipe.Time(ctx)
		for _, t := range captcha.SolvableTypes() {
			for _, provider := range providers {
				hashes[t] = append(hashes[t], pipe.HGetAll(ctx, p.key("outcomes", provider, t)))
			}
		}
	})
	all = map[captcha.Type]map[string]Sums{}
	for t, of := range hashes {
		all[t] = map[string]Sums{}
		for i, hash := range of {
			all[t][providers[i]] = readSums(hash.Val(), clock.Val())
		}
	}
	return all, err
}

func readSums(hash map[string]string, now time.Time) Sums {
	s := Sums{}
	for name, text := range hash {
		s[name], _ = strconv.ParseFloat(text, 64)
	}
	fade := math.Exp(min(0, s["at"]-float64(now.UnixMilli())) / float64(time.Hour.Milliseconds()))
	for name := range s {
		s[name] *= fade
	}
	return s
}
