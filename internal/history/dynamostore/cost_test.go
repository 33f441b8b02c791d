//go:build !race

package dynamostore

import (
	"fmt"
	"slices"
	"testing"

	"poold/internal/captcha"
)

// For each case in the table, this test checks how many write units a record costs. The emulator
// counts the units.
func TestCost(t *testing.T) {
	s, proxy := openThrough(t, nil)
	units := func() float64 { return proxy.Units("TransactWriteItems") + proxy.Units("BatchWriteItem") }
	for _, c := range []struct {
		name    string
		n, size int // n records are written in batches of the given size
		targets int
		most    float64
	}{
		{"a hundred of 5 targets", 300, 100, 5, 5.4},
		{"a hundred of 40 targets", 300, 100, 40, 6},
		{"twenty of 5 targets", 100, 20, 5, 7},
		{"alone", 10, 1, 1, 9},
	} {
		before := units()
		all := records(yesterday(), c.n)
		for i := range all {
			all[i].Target, all[i].Type = fmt.Sprint("target-", i%c.targets), captcha.Turnstile
		}
		for i := 0; i < c.n; i += c.size {
			mustWrite(t, s, all[i:i+c.size]...)
		}
		each := (units() - before) / float64(c.n)
		t.Logf("%s: %.2f write units a record", c.name, each)
		if each > c.most || each < 3 {
			t.Errorf("%s: %.2f write units a record, want at most %.1f", c.name, each, c.most)
		}
	}
}

// For each case in the table, this test checks how many write units an audit entry costs. An entry
// is in no index and updates one item of figures.
func TestCostOfTheAudit(t *testing.T) {
	s, proxy := openThrough(t, nil)
	for _, c := range []struct {
		name          string
		n, size, keys int // n entries of `keys` keys are written in batches of the given size
		most          float64
	}{
		{"a hundred of 1 key", 500, 100, 1, 2.1},
		{"a hundred of 5 keys", 500, 100, 5, 2.3},
		{"alone", 10, 1, 1, 4},
	} {
		before := proxy.Units("TransactWriteItems") + proxy.Units("BatchWriteItem")
		all := entries(yesterday(), c.n)
		for i := range all {
			all[i].Key = fmt.Sprint("key-", i%c.keys)
		}
		for batch := range slices.Chunk(all, c.size) {
			mustNote(t, s, batch...)
		}
		each := (proxy.Units("TransactWriteItems") + proxy.Units("BatchWriteItem") - before) / float64(c.n)
		t.Logf("%s: %.2f write units an entry", c.name, each)
		if each > c.most || each < 2 {
			t.Errorf("%s: %.2f write units an entry, want at most %.1f", c.name, each, c.most)
		}
	}
}
