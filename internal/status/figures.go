package status

import (
	"math"
	"slices"
	"time"
)

// timestamp is RFC 3339 in UTC to the millisecond, as everywhere in the API.
const timestamp = "2006-01-02T15:04:05.000Z"

// stamp formats a moment; the zero time is "", never the year 1.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timestamp)
}

// thousandths rounds to three places.
func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

// tenThousandths rounds to four places.
func tenThousandths(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// ratio is a by b to four places, 0 where b is.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return tenThousandths(float64(a) / float64(b))
}

const (
	billionths = 1e9 // of the currency, in which the stock counts what was spent
	spentShown = 1e6 // parts of it that the document shows
)

// money turns billionths of the currency into the currency, to six places.
func money(n int64) Money {
	return Money(math.Round(float64(n)/(billionths/spentShown)) / spentShown)
}

// seconds rounds to the millisecond. It divides once: Duration.Seconds adds the fraction
// to the whole, which makes 4.8870000000000005 of 4.887 s.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// percentile returns the p-th percentile of a list by nearest rank, in seconds; 0 of
// an empty one. The list is left as it is.
func percentile(list []time.Duration, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	rank := (len(sorted)*p + 99) / 100 // rounded up, from 1
	return seconds(sorted[rank-1])
}
