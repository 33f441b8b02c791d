package simulate

import (
	"fmt"
	"strings"
	"time"

	"poold/internal/refill/policy"
)

// The plot has two panels above each other: requests, and tokens. All lengths are pixels.
const (
	plotBuckets, plotBar        = 240, 4
	plotWidth, plotPanel        = plotBuckets * plotBar, 160
	plotLeft, plotTop, plotText = 60, 30, 20
)

// plot collects a run for a picture.
type plot struct {
	length  float64 // of the run in seconds
	buckets [plotBuckets]struct {
		requests, hits int
		ready, orders  int // the most at one time
	}
	seen policy.Result
}

func (p *plot) watch(at float64, ready, orders int, r *policy.Result) {
	if at >= p.length {
		return
	}
	b := &p.buckets[int(at/p.length*plotBuckets)]
	b.requests += r.Requests - p.seen.Requests
	b.hits += r.Hits - p.seen.Hits
	b.ready, b.orders = max(b.ready, ready), max(b.orders, orders)
	p.seen = *r
}

// svg returns the picture.
func (p *plot) svg(title string) string {
	mostAsked, mostHeld := 1, 1
	for _, b := range p.buckets {
		mostAsked, mostHeld = max(mostAsked, b.requests), max(mostHeld, b.ready, b.orders)
	}
	var s strings.Builder
	write := func(format string, values ...any) { fmt.Fprintf(&s, format+"\n", values...) }
	text := func(x, y int, what string) { write(`<text x="%d" y="%d">%s</text>`, x, y, what) }
	write(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`,
		plotLeft+plotWidth+plotText, plotTop+2*(plotPanel+2*plotText))
	write(`<rect width="100%%" height="100%%" fill="white"/>`)
	text(plotLeft, plotText, title)
	bar := func(i, bottom, value, most int, color string) {
		height := float64(value) / float64(most) * plotPanel
		write(`<rect x="%d" y="%.1f" width="%d" height="%.1f" fill="%s"/>`, plotLeft+i*plotBar, float64(bottom)-height, plotBar-1, height, color)
	}
	upper := plotTop + plotText + plotPanel
	lower := upper + plotPanel + 2*plotText
	text(plotLeft, upper-plotPanel-5, "requests: with a token (green), without (red)")
	text(plotLeft, lower-plotPanel-5, "most tokens: ready (blue), on order (gray)")
	text(5, upper-plotPanel+10, fmt.Sprint(mostAsked))
	text(5, lower-plotPanel+10, fmt.Sprint(mostHeld))
	for i, b := range p.buckets {
		bar(i, upper, b.requests, mostAsked, "#c33")
		bar(i, upper, b.hits, mostAsked, "#393")
		bar(i, lower, b.ready, mostHeld, "#36c")
		write(`<circle cx="%d" cy="%.1f" r="1.5" fill="#888"/>`, plotLeft+i*plotBar+1, float64(lower)-float64(b.orders)/float64(mostHeld)*plotPanel)
	}
	for i := range 5 {
		at := time.Duration(p.length * float64(i) / 4 * float64(time.Second)).Round(time.Second)
		text(min(plotLeft+i*plotWidth/4, plotLeft+plotWidth-4*plotText), upper+15, at.String())
	}
	write(`</svg>`)
	return s.String()
}
