package policy

import "math"

// gaps estimates when the next request is due. For each length it counts the silences that
// reached that length, and the silences that ended there (a product-limit estimate). It counts
// silences after different busyness separately. It resolves the period of a demand more exactly
// than the histograms of the table. Times are in scaled seconds.
type gaps [gapClasses]gapClass

type gapClass struct {
	Reached [gapBins]uint16 `json:"reached"` // in units of 1/sampleUnit
	Ended   [gapBins]uint16 `json:"ended"`
}

const (
	// The first bin of silence ends at gapFirst. Each further bin is gapGrow times as long as the bin
	// before. The last bin is open and begins at about half a day.
	gapBins  = 320
	gapFirst = 2.0
	gapGrow  = 1.03
	// Each class has gapBusies buckets of busyness; the last class is open.
	gapClasses = 4
	gapBusies  = 2
	// gapPrior is the weight of the table's probability, as a number of silences.
	gapPrior = 1.0
)

var gapLog = math.Log(gapGrow)

func gapPlace(silence float64) float64 {
	if silence <= gapFirst {
		return silence / gapFirst
	}
	return min(1+math.Log(silence/gapFirst)/gapLog, gapBins-1)
}

func (g *gaps) class(busy int) *gapClass { return &g[min(busy/gapBusies, gapClasses-1)] }

// add counts a silence that has ended.
func (g *gaps) add(busy int, silence float64) {
	c := g.class(busy)
	end := int(gapPlace(silence))
	for b := range end + 1 {
		if c.Reached[b] > halveAt-sampleUnit {
			c.Reached[b] /= 2
			c.Ended[b] /= 2
		}
		c.Reached[b] += sampleUnit
	}
	c.Ended[end] += sampleUnit
}

// walk is the distribution of the remaining length of a silence.
type walk struct {
	class   *gapClass
	silence float64 // length of the silence so far
	from    float64 // position of that length among the bins
	weight  float64 // number of recorded silences of at least that length
	// goesOn is the probability that the silence goes on up to the bin with the index bin. The walk
	// keeps it, so that ascending queries take one pass over the bins.
	bin    int
	goesOn float64
}

// after returns the walk of a silence that has lasted for silence so far.
func (g *gaps) after(busy int, silence float64) walk {
	w := walk{class: g.class(busy), silence: silence, from: gapPlace(silence), goesOn: 1}
	w.bin = int(w.from)
	w.weight = w.left() / sampleUnit
	return w
}

// within returns the probability that the silence ends within x more seconds. It is 0 if
// no recorded silence reached the current length.
func (w *walk) within(x float64) float64 {
	to := gapPlace(w.silence + x)
	if int(to) < w.bin {
		w.bin, w.goesOn = int(w.from), 1
	}
	for ; w.bin < int(to) && w.class.Reached[w.bin] > 0; w.bin++ {
		if w.class.Ended[w.bin] > 0 { // in most bins no silence ended
			w.goesOn *= w.through(1)
		}
	}
	if w.class.Reached[w.bin] == 0 {
		return 1 - w.goesOn
	}
	return 1 - w.goesOn*w.through(to-float64(w.bin))
}

// mix corrects the table's probability of a request within x seconds by the recorded silences.
func (w *walk) mix(table, x float64) float64 {
	return (gapPrior*table + w.weight*w.within(x)) / (gapPrior + w.weight)
}

// begin returns the part of the current bin that lies before the walk. It is 0 except in
// the walk's first bin.
func (w *walk) begin() float64 { return max(0, w.from-float64(w.bin)) }

// left returns how many recorded silences go on at the point at which the walk enters
// the current bin. It assumes that the ends are spread evenly over a bin.
func (w *walk) left() float64 {
	return float64(w.class.Reached[w.bin]) - w.begin()*float64(w.class.Ended[w.bin])
}

// through returns the probability that the silence goes on from the point at which the
// walk enters the bin to the given part of the bin.
func (w *walk) through(part float64) float64 {
	left := w.left()
	if left <= 0 {
		return 1
	}
	return max(0, 1-(part-w.begin())*float64(w.class.Ended[w.bin])/left)
}
