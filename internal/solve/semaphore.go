package solve

import "sync"

// Semaphore limits how many requests use a resource at the same time. One caller gets at most three quarters of the
// places, so that it does not block the others. It is safe for concurrent use.
type Semaphore struct {
	most int

	mu    sync.Mutex
	taken map[string]int // by caller
	all   int
}

// NewSemaphore returns a Semaphore with the given number of places, all free.
func NewSemaphore(most int) *Semaphore { return &Semaphore{most: most, taken: map[string]int{}} }

// Take takes a place until release is called. It returns false if no place is free for this caller. The caller is the
// stable name of a key. If the file has no keys, or the caller is not known yet, it is "", which may have all places.
func (p *Semaphore) Take(caller string) (release func(), ok bool) {
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
