package httpapi

import (
	"fmt"
	"testing"
	"time"

	"poold/internal/httpapi/browsertest"
)

// The time to the bar is measured over takes of each of takenFrom targets; lateBar is what
// 95 of 100 may take.
const (
	takenFrom = 10
	takes     = 5
	lateBar   = 1500 * time.Millisecond
)

// Fifty takes, each as soon as the page has shown the one before of the same target, and how
// long it took to show each in the bar: from the request on, by the clock of the page.
func browserTakes(t *testing.T, visit func(*daemon, string) *visitor) {
	d, _ := realCrowd(t, takenFrom)
	v := visit(d, "")
	for rounds := range 3 { // the machine may have better things to do in one
		for i := range takenFrom {
			d.fill(t, fmt.Sprintf("t%05d", i), takes)
		}
		v.sees("what is there", fmt.Sprintf(`[...document.querySelectorAll('.bar')].filter((b) => b.getAttribute('aria-label').startsWith('%d tokens')).length === %d`, takes, takenFrom))
		took, err := browsertest.Eval[[]float64](v.Page, fmt.Sprintf(`(async () => {
			const took = [];
			const take = async (bar, name, left) => {
				const began = performance.now();
				const shown = new Promise((done) => {
					const watch = new MutationObserver(() => {
						if (!bar.getAttribute('aria-label').startsWith(left + ' token')) return;
						took.push(performance.now() - began);
						watch.disconnect();
						done();
					});
					watch.observe(bar, { attributeFilter: ['aria-label'] });
				});
				await fetch('/pool/' + name + '/token', { method: 'POST' });
				await shown;
			};
			await Promise.all(Array.from({ length: %d }, async (_, i) => {
				const name = 't' + String(i).padStart(5, '0');
				await new Promise((next) => setTimeout(next, 60 * i));
				for (let left = %d; left-- > 0;) await take(document.querySelector('#t-' + name + ' .bar'), name, left);
			}));
			return took.sort((a, b) => a - b);
		})()`, takenFrom, takes))
		if err != nil {
			t.Fatal(err)
		}
		p95 := time.Duration(took[len(took)*95/100] * float64(time.Millisecond))
		t.Logf("the bar shows a take after %.0f ms (p50), %v (p95 of %d)", took[len(took)/2], p95, len(took))
		if p95 <= lateBar {
			return
		}
		if rounds == 2 {
			t.Errorf("the bar shows 95 of 100 takes after %v, more than %v", p95, lateBar)
		}
	}
}

// fluid is a page of 500 targets that follows the stream while other tests run.
type fluid struct {
	v     *visitor
	began browsertest.Effort
}

// What a change of 50 of 500 targets may cost the page in all its tasks together, so that none
// of them is long, and how much its heap may grow. scripts/page measures by the clock, and for
// longer.
const (
	costlyChange = 200 * time.Millisecond
	grownHeap    = 4 << 20
)

func beginFluid(t *testing.T, visit func(*daemon, string) *visitor) *fluid {
	d := startCrowd(t, 500, 10)
	v := visit(d, "")
	v.sees("all of them", `document.querySelectorAll('.target').length === 500`)
	v.do(`document.querySelector('.target button').click()`)
	if err := v.Watch(); err != nil {
		t.Fatal(err)
	}
	v.do(`window.changes = 0, source.addEventListener('change', () => changes++)`)
	v.sees("some changes", `changes > 2`)
	began, err := v.Effort()
	if err != nil {
		t.Fatal(err)
	}
	v.do(`window.changes = 0`)
	return &fluid{v, began}
}

// end: the page was fluid. By the clock a task may take long because the machine is busy
// elsewhere, so what counts is processor time.
func (f *fluid) end(t *testing.T) {
	f.v.sees("more changes", `changes >= 10`)
	changes, err := browsertest.Eval[int](f.v.Page, `changes`)
	if err != nil {
		t.Fatal(err)
	}
	ended, err := f.v.Effort()
	if err != nil {
		t.Fatal(err)
	}
	each := (ended.CPU - f.began.CPU) / time.Duration(changes)
	grown := ended.Heap - f.began.Heap
	t.Logf("%d changes cost %v each; the heap has %d kB more than %d kB; long tasks: %v", changes, each, grown>>10, f.began.Heap>>10, ended.Long)
	if each > costlyChange || grown > grownHeap {
		t.Errorf("a change costs %v, more than %v, or the heap grew by %d kB", each, costlyChange, grown>>10)
	}
}
