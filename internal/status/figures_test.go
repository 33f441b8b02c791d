package status

import (
	"strconv"
	"testing"
	"time"
)

func TestMoney(t *testing.T) {
	for n, want := range map[int64]Money{0: 0, 499: 0, 500: 0.000001, 1_000_000_000: 1, 1_234_567_499: 1.234567, 123_456_789_000_000_500: 123456789.000001} {
		if got := money(n); got != want {
			t.Errorf("%d billionths: %v, want %v", n, got, want)
		}
	}
}

func TestPercentile(t *testing.T) {
	list := []time.Duration{9 * time.Second, 1500 * time.Millisecond, 3 * time.Second}
	for p, want := range map[int]float64{50: 3, 90: 9, 1: 1.5, 100: 9} {
		if got := percentile(list, p); got != want {
			t.Errorf("p%d: %v, want %v", p, got, want)
		}
	}
	if list[0] != 9*time.Second || percentile(nil, 50) != 0 {
		t.Error("sorted the caller's list, or nothing is something")
	}
}

// TestSeconds: no figure shows more digits than it has.
func TestSeconds(t *testing.T) {
	for ms := range 100_000 {
		d := time.Duration(ms)*time.Millisecond + 499*time.Microsecond
		want, err := strconv.ParseFloat(strconv.Itoa(ms/1000)+"."+strconv.Itoa(1000 + ms%1000)[1:], 64)
		if got := seconds(d); err != nil || got != want {
			t.Fatalf("%s: %v, want %v (%v)", d, got, want, err)
		}
	}
}
