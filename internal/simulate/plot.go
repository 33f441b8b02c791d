package simulate

import (
	"fmt"
	"strings"
	"time"

	"poold/internal/refill/policy"
)

// plotBars is the number of bars in a plot, each 4 pixels wide.
const plotBars = 240

// plot collects the figures of a run for a picture.
type plot struct {
	length float64 // of the run in seconds
	bars   [plotBars]struct {
		requests, hits int
		ready, coming  int // the most at one time: ready tokens, and these with the orders
	}
	seen policy.Result
}

func (p *plot) watch(at float64, ready, orders int, r *policy.Result) {
	b := &p.bars[min(int(at/p.length*plotBars), plotBars-1)]
	b.requests += r.Requests - p.seen.Requests
	b.hits += r.Hits - p.seen.Hits
	b.ready, b.coming = max(b.ready, ready), max(b.coming, ready+orders)
	p.seen = *r
}

// svg returns the picture: a panel with requests above one with tokens.
func (p *plot) svg(title string) string {
	var s strings.Builder
	write := func(format string, values ...any) { fmt.Fprintf(&s, format+"\n", values...) }
	write(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 430" font-family="sans-serif" font-size="12">`)
	write(`<rect width="100%%" height="100%%" fill="white"/><text x="20" y="20">%s, in %v</text>`, title,
		time.Duration(p.length)*time.Second)
	panel := func(bottom float64, what string, colors [2]string, heights func(bar int) [2]int) {
		most := 1
		for i := range p.bars {
			most = max(most, heights(i)[0])
		}
		write(`<text x="20" y="%g">%s; at most %d</text>`, bottom-155, what, most)
		for i := range p.bars {
			for k, n := range heights(i) {
				height := 150 * float64(n) / float64(most)
				write(`<rect x="%d" y="%.1f" width="3" height="%.1f" fill="%s"/>`, 20+4*i, bottom-height, height, colors[k])
			}
		}
	}
	panel(210, "requests: with a token (green), without (red)", [2]string{"#c33", "#393"},
		func(i int) [2]int { return [2]int{p.bars[i].requests, p.bars[i].hits} })
	panel(410, "tokens: ready (blue), on order (gray)", [2]string{"#aaa", "#36c"},
		func(i int) [2]int { return [2]int{p.bars[i].coming, p.bars[i].ready} })
	write(`</svg>`)
	return s.String()
}
