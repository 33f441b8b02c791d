package policy

import "math"

// gaps is when the next request comes: how many silences have reached each length,
// and how many of them ended there, by how busy it was before. It knows periods far
// more sharply than the histograms of the table. Times are in scaled seconds.
type gaps [gapClasses]gapClass

type gapClass struct {
	Reached [gapBins]uint16 `json:"reached"` // in units of 1/sampleUnit
	Ended   [gapBins]uint16 `json:"ended"`
}

const (
	// The first bin of silence ends at gapFirst, each other one is gapGrow times as
	// long as the one before; the last one is open and begins at about half a day.
	gapBins  = 320
	gapFirst = 2.0
	gapGrow  = 1.03
	// gapBusies buckets of busyness make one class; the last one is open.
	gapClasses = 4
	gapBusies  = 2
	// gapPrior is how many silences the table's opinion weighs as much as.
	gapPrior = 1.0
)

var gapLog = math.Log(gapGrow)

// gapPlace is where a silence lies among the bins.
func gapPlace(silence float64) float64 {
	if silence <= gapFirst {
		return silence / gapFirst
	}
	return min(1+math.Log(silence/gapFirst)/gapLog, gapBins-1)
}

// class is that of a bucket of busyness.
func (g *gaps) class(busy int) *gapClass { return &g[min(busy/gapBusies, gapClasses-1)] }

// add notes that a silence ended.
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

// walk answers how likely a silence ends within x more, for one x after the other:
// ascending ones cost one pass over the bins.
type walk struct {
	c       *gapClass
	silence float64
	from    float64 // the silence's place
	weight  float64 // how many silences got there
	bin     int     // the bins before it are in goesOn
	goesOn  float64
}

// after begins a walk at a silence of that length.
func (g *gaps) after(busy int, silence float64) walk {
	w := walk{c: g.class(busy), silence: silence, from: gapPlace(silence), goesOn: 1}
	w.bin = int(w.from)
	w.weight = w.left() / sampleUnit
	return w
}

// within is how likely the silence ends within x more; 0 where none got so far.
func (w *walk) within(x float64) float64 {
	to := gapPlace(w.silence + x)
	if int(to) < w.bin {
		w.bin, w.goesOn = int(w.from), 1
	}
	for ; w.bin < int(to) && w.c.Reached[w.bin] > 0; w.bin++ {
		if w.c.Ended[w.bin] > 0 { // in most bins none did
			w.goesOn *= w.through(1)
		}
	}
	if w.c.Reached[w.bin] == 0 {
		return 1 - w.goesOn
	}
	return 1 - w.goesOn*w.through(to-float64(w.bin))
}

// mix is what the table says of a request within x, corrected by the silences.
func (w *walk) mix(table, x float64) float64 {
	return (gapPrior*table + w.weight*w.within(x)) / (gapPrior + w.weight)
}

// begin is the part of the bin that the walk begins at: 0 but in its first one.
func (w *walk) begin() float64 { return max(0, w.from-float64(w.bin)) }

// left is how many silences got there. In each part of a bin as many end.
func (w *walk) left() float64 {
	return float64(w.c.Reached[w.bin]) - w.begin()*float64(w.c.Ended[w.bin])
}

// through is how likely the silence goes on until that part of the bin.
func (w *walk) through(part float64) float64 {
	left := w.left()
	if left <= 0 {
		return 1
	}
	return max(0, 1-(part-w.begin())*float64(w.c.Ended[w.bin])/left)
}
