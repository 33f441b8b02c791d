package status

import (
	"math"
	"slices"
	"time"
)

// timestamp is the layout of times in the API: RFC 3339 in UTC, to the millisecond.
const timestamp = "2006-01-02T15:04:05.000Z"

// stamp formats a time. For the zero time the result is "".
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(timestamp)
}

func thousandths(x float64) float64 { return math.Round(x*1000) / 1000 }

func tenThousandths(x float64) float64 { return math.Round(x*1e4) / 1e4 }

// ratio returns a/b, rounded to four decimal places; 0 if b is 0.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return tenThousandths(float64(a) / float64(b))
}

// seconds converts a duration to seconds, rounded to the millisecond. Duration.Seconds is not
// precise enough, because it returns 4.8870000000000005 for 4.887 s.
func seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// percentile returns the p-th percentile by nearest rank, in seconds; 0 for an empty list.
func percentile(list []time.Duration, p int) float64 {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	rank := (len(sorted)*p + 99) / 100 // the rank is rounded up; the first rank is 1
	return seconds(sorted[rank-1])
}
