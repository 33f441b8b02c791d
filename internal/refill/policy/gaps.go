package policy

import "math"

// gaps estimates when the next request is due. For each length, it counts the silences
// that reached this length and the silences that ended there (a product-limit estimate). Silences
// are counted separately by the busyness that preceded them. The estimate resolves the period of a
// demand better than the histograms of the table. Times are in scaled seconds.
type gaps [gapClasses]gapClass

type gapClass struct {
	Reached [gapBins]uint16 `json:"reached"` // in units of 1/sampleUnit
	Ended   [gapBins]uint16 `json:"ended"`
}

const (
	// The first bin of silence ends at gapFirst. Each further bin is gapGrow times as long as the
	// previous bin. The last bin is open and begins at about half a day.
	gapBins  = 320
	gapFirst = 2.0
	gapGrow  = 1.03
	// A class contains gapBusies buckets of busyness. The last class is open.
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
	from    float64 // position of silence among the bins
	weight  float64 // number of recorded silences that are at least as long
	// goesOn is the probability that the silence reaches the bin with the index bin. The walk keeps
	// this value, so that queries with ascending x need only one pass over the bins.
	bin    int
	goesOn float64
}

// walkFrom returns the walk of a silence that has the given length so far.
func (g *gaps) walkFrom(busy int, silence float64) walk {
	w := walk{class: g.class(busy), silence: silence, from: gapPlace(silence), goesOn: 1}
	w.bin = int(w.from)
	w.weight = w.silencesLeft() / sampleUnit
	return w
}

// endsWithin returns the probability that the silence ends in the next x seconds. The result is 0 if
// no recorded silence reached the current length.
func (w *walk) endsWithin(x float64) float64 {
	to := gapPlace(w.silence + x)
	if int(to) < w.bin {
		w.bin, w.goesOn = int(w.from), 1
	}
	for ; w.bin < int(to) && w.class.Reached[w.bin] > 0; w.bin++ {
		if w.class.Ended[w.bin] > 0 { // in most bins no silence ended
			w.goesOn *= w.passes(1)
		}
	}
	if w.class.Reached[w.bin] == 0 {
		return 1 - w.goesOn
	}
	return 1 - w.goesOn*w.passes(to-float64(w.bin))
}

// mix uses the recorded silences to correct the table's probability of a request in the next x
// seconds.
func (w *walk) mix(table, x float64) float64 {
	return (gapPrior*table + w.weight*w.endsWithin(x)) / (gapPrior + w.weight)
}

// firstPart returns the part of the current bin that lies before the start of the walk. The result is
// 0 in all later bins.
func (w *walk) firstPart() float64 { return max(0, w.from-float64(w.bin)) }

// silencesLeft returns how many recorded silences continue at the point at which the walk enters the
// current bin. silencesLeft assumes that the ends are spread evenly over a bin.
func (w *walk) silencesLeft() float64 {
	return float64(w.class.Reached[w.bin]) - w.firstPart()*float64(w.class.Ended[w.bin])
}

// passes returns the probability that the silence continues up to the given part of the
// bin. It assumes that the silence has reached the point at which the walk enters the bin.
func (w *walk) passes(part float64) float64 {
	left := w.silencesLeft()
	if left <= 0 {
		return 1
	}
	return max(0, 1-(part-w.firstPart())*float64(w.class.Ended[w.bin])/left)
}
