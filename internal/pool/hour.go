package pool

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// minuteNames are the counters that are kept by minute, in the order of look.lua.
var minuteNames = []string{"requests", "hits", "waited", "misses", "bought", "solved"}

// Minute are the figures of one minute, of minuteNames alone.
type Minute struct {
	At      time.Time // its begin
	Figures Figures
}

// Hour are the minutes of the last 60 in which anything was counted, the oldest first. A
// count is of the minute in which somebody looked at the identity next. Of Survey, with
// Query.Hour, alone.
func (s *Stock) Hour(now time.Time) []Minute {
	list := []Minute{}
	_, lines, _ := strings.Cut(s.hour, "|") // what stands in front is for the next look
	for line := range strings.SplitSeq(lines, "|") {
		word, counts, _ := strings.Cut(line, " ")
		minute, err := strconv.ParseInt(word, 10, 64)
		at := time.Unix(60*minute, 0).UTC()
		if err != nil || now.Sub(at) >= time.Hour {
			continue
		}
		m := Minute{At: at}
		for i, count := range strings.Fields(counts) {
			if i < len(minuteNames) {
				m.Figures.add(minuteNames[i], count)
			}
		}
		if m.Figures != (Figures{}) {
			list = append(list, m)
		}
	}
	slices.Reverse(list)
	return list
}
