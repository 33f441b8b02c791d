package solve

import "sync"

// Places limits what is in use at a time. One caller can have three quarters of the places, so that it does not stop
// the others. It is safe for concurrent use.
type Places struct {
	most int

	mu    sync.Mutex
	taken map[string]int // by caller
	all   int
}

// NewPlaces returns a number of places.
func NewPlaces(most int) *Places { return &Places{most: most, taken: map[string]int{}} }

// Take takes a place until release is called. False: there is none for this caller. The caller is the stable name of
// a key; "" = without keys, or not known yet, and may have all places.
func (p *Places) Take(caller string) (release func(), ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= p.most || caller != "" && p.taken[caller] >= p.most*3/4 {
		return func() {}, false
	}
	p.all++
	p.taken[caller]++
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.taken[caller]--; p.taken[caller] == 0 {
			delete(p.taken, caller)
		}
	}), true
}
