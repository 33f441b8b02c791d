package simulate

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"poold/internal/cli"
	"poold/internal/refill/policy"
	"poold/internal/targets"
)

var (
	// compareDepths are the fixed depths of a comparison; see notWorth.
	compareDepths = []int{1, 2, 3, 4, 5, 6, 8, 11, 15, 20, 27, 36, 48, 64, 90, 120, 160, 200}
	// comparePrices are the values of max_waste of a comparison, besides the target's own value.
	comparePrices = []float64{1, 3, 10}
)

// A comparison ends at a depth if this depth and the previous depth together saved at most one miss
// per notWorth requests.
const notWorth = 1000

// Row is one run of a comparison.
type Row struct {
	Refill   string  `json:"refill"`
	Depth    int     `json:"depth"`
	MaxWaste float64 `json:"max_waste,omitempty"` // adaptive only
	policy.Result
	*Money
}

// compare runs fixed depths and the adaptive policy on the same demand.
func compare(ctx context.Context, base policy.Simulation, p price, bar *bar) ([]Row, error) {
	prices := slices.Clone(comparePrices)
	if !slices.Contains(prices, base.Params.MaxWaste) {
		prices = append(prices, base.Params.MaxWaste)
	}
	slices.Sort(prices)
	var rows []Row
	runs := len(compareDepths) + len(prices)
	try := func(one policy.Simulation) error {
		done := len(rows)
		one.Progress = func(share float64) { bar.show((float64(done) + share) / float64(runs)) }
		result, err := one.Run(ctx)
		r := Row{Refill: string(targets.RefillFixed), Depth: one.Params.Depth, Result: result, Money: newMoney(result, p)}
		if one.Params.Adaptive {
			r.Refill, r.MaxWaste = string(targets.RefillAdaptive), one.Params.MaxWaste
		}
		rows = append(rows, r)
		return err
	}
	for _, depth := range compareDepths {
		if err := try(base.Fixed(depth)); err != nil {
			return nil, err
		}
		if n := len(rows); n > 2 && rows[n-3].Misses-rows[n-1].Misses <= rows[n-1].Requests/notWorth {
			break
		}
	}
	for _, price := range prices {
		if err := try(base.Adaptive(price)); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// bar is a progress bar on a terminal. If the output is not a terminal, bar writes nothing.
type bar struct {
	w     io.Writer // nil = the output is not a terminal
	shown int       // displayed percentage; -1 = the line is empty
}

const barWidth = 40

func newBar(w io.Writer) *bar {
	b := &bar{shown: -1}
	if cli.TerminalOf(w) != nil {
		b.w = w
	}
	return b
}

func (b *bar) show(share float64) {
	percent := int(100 * min(1, max(0, share)))
	if b.w == nil || percent == b.shown {
		return
	}
	b.shown = percent
	full := percent * barWidth / 100
	_, _ = fmt.Fprintf(b.w, "\r[%s%s] %3d %%", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), percent)
}

func (b *bar) clear() {
	if b.w != nil && b.shown >= 0 {
		_, _ = fmt.Fprintf(b.w, "\r%s\r", strings.Repeat(" ", barWidth+len("[] 100 %")))
		b.shown = -1
	}
}

// The measures of the plot in pixels.
const (
	plotWidth, plotHeight = 720.0, 440.0
	plotLeft, plotRight   = 70.0, 20.0
	plotTop, plotBottom   = 50.0, 60.0
	plotApart             = 36.0 // shortest distance between two ticks of the waste axis
	plotTicks             = 5    // number of intervals of the hit-rate axis

	plotText, plotFixed, plotAdaptive = "#333", "#888", "#c30"
)

// plotWastes are the possible ticks of the waste axis.
var plotWastes = []float64{0, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 100}

// plot draws the hit rate against the waste as SVG. Fixed depths are a line, adaptive runs are
// points, and each run has a label. The waste axis has a square-root scale, because the interesting
// part is near zero.
func plot(rows []Row) string {
	most, least := 0.1, 1.0
	for _, r := range rows {
		most, least = max(most, r.WastePerRequest), min(least, r.HitRate)
	}
	least = math.Floor(least*10) / 10
	if least >= 1 {
		least = 0.9
	}
	x := func(waste float64) float64 {
		return plotLeft + math.Sqrt(waste/most)*(plotWidth-plotLeft-plotRight)
	}
	y := func(hits float64) float64 {
		return plotTop + (1-hits)/(1-least)*(plotHeight-plotTop-plotBottom)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]g %[2]g" width="%[1]g" height="%[2]g" font-family="sans-serif" font-size="12">
<title>Hit rate against waste</title>
<rect width="100%%" height="100%%" fill="white"/>
`, plotWidth, plotHeight)
	text := func(x, y float64, anchor, colour, what string) {
		fmt.Fprintf(&b, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" fill=\"%s\">%s</text>\n", x, y, anchor, colour, what)
	}
	for i := range plotTicks + 1 {
		hits := least + float64(i)/plotTicks*(1-least)
		fmt.Fprintf(&b, "<path d=\"M%g %.1fH%g\" stroke=\"#ddd\"/>\n", plotLeft, y(hits), plotWidth-plotRight)
		text(plotLeft-8, y(hits)+4, "end", plotText, fmt.Sprintf("%.0f %%", 100*hits))
	}
	free := 0.0 // position from which the next label fits
	for _, waste := range plotWastes {
		if at := x(waste); waste <= most && at >= free {
			fmt.Fprintf(&b, "<path d=\"M%.1f %gV%g\" stroke=\"#eee\"/>\n", at, plotTop, plotHeight-plotBottom)
			text(at, plotHeight-plotBottom+20, "middle", plotText, fmt.Sprintf("%g", waste))
			free = at + plotApart
		}
	}
	text(plotWidth/2, plotHeight-16, "middle", plotText, "tokens expired per request")
	text(plotLeft, 18, "start", plotText, "requests that found a token:")
	text(plotLeft+190, 18, "start", plotFixed, "fixed depths")
	text(plotLeft+290, 18, "start", plotAdaptive, "adaptive, by max_waste")
	var line []string
	for _, r := range rows {
		colour, radius, label, below := plotFixed, 3, fmt.Sprint(r.Depth), 16.0
		cx, cy := x(r.WastePerRequest), y(r.HitRate)
		if r.Refill == string(targets.RefillAdaptive) {
			colour, radius, label, below = plotAdaptive, 5, fmt.Sprintf("%g", r.MaxWaste), -8
		} else {
			line = append(line, fmt.Sprintf("%.1f,%.1f", cx, cy))
		}
		fmt.Fprintf(&b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"%s\"/>\n", cx, cy, radius, colour)
		text(cx, cy+below, "middle", colour, label)
	}
	fmt.Fprintf(&b, "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\"/>\n</svg>\n", strings.Join(line, " "), plotFixed)
	return b.String()
}
