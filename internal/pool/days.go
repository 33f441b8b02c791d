package pool

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Day are the figures of one UTC day.
type Day struct {
	Date    string // 2006-01-02
	Figures Figures
}

// Days are the figures of the days on which there were any, of the last seven, today
// first. They are those of Figures, split: what happened before the first day that is
// known is in none.
func (s *Stock) Days(today time.Time) []Day { return days(s.Figures, s.noted, today) }

// days splits figures. noted are, by the number of a day, counted from 1970 on, the
// figures as they were when it began.
func days(now Figures, noted map[int64]string, today time.Time) []Day {
	last := today.Unix() / (24 * 60 * 60)
	list := []Day{}
	end := now
	for _, day := range slices.Backward(slices.Sorted(maps.Keys(noted))) {
		if day <= last-7 {
			break
		}
		begin := readNoted(noted[day])
		if f := end.minus(begin); f != (Figures{}) {
			list = append(list, Day{Date: time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly), Figures: f})
		}
		end = begin
	}
	return list
}

// note notes the figures as they were when a day began.
func (s *Stock) note(day int64, figures string) {
	if s.noted == nil {
		s.noted = map[int64]string{}
	}
	s.noted[day] = figures
}

// minus is what f has more than g, counter by counter.
func (f Figures) minus(g Figures) Figures {
	for _, name := range figureNames {
		*counters[name](&f) -= *counters[name](&g)
	}
	return f
}

// figureNames are the names of the counters in the stats hash.
var figureNames = []string{
	"requests", "hits", "waited", "misses", "replays", "returned", "solved", "expired", "bought", "failed", "lost",
	"discarded", "accepted", "rejected", "junk", "spent", "unrecorded",
}

// readNoted reads "name value name value ...".
func readNoted(text string) (f Figures) {
	for words := strings.Fields(text); len(words) >= 2; words = words[2:] {
		f.add(words[0], words[1])
	}
	return f
}

// dayOf is the number of the day that a field of the figures is of; false where it is of
// none.
func dayOf(field string) (day int64, is bool) {
	number, is := strings.CutPrefix(field, "day:")
	if !is {
		return 0, false
	}
	day, err := strconv.ParseInt(number, 10, 64)
	return day, err == nil
}
