package pool

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// add adds to the counter of a name in the stats hash. It ignores names of other versions.
func (f *Figures) add(name, value string) {
	count, _ := strconv.ParseInt(value, 10, 64)
	if counter := counters[name]; counter != nil {
		*counter(f) += count
	}
}

// counters are the figures by their names in the stats hash.
var counters = map[string]func(*Figures) *int64{
	"requests":   func(f *Figures) *int64 { return &f.Requests },
	"hits":       func(f *Figures) *int64 { return &f.Hits },
	"waited":     func(f *Figures) *int64 { return &f.Waited },
	"misses":     func(f *Figures) *int64 { return &f.Misses },
	"refused":    func(f *Figures) *int64 { return &f.Refused },
	"replays":    func(f *Figures) *int64 { return &f.Replays },
	"solved":     func(f *Figures) *int64 { return &f.Solved },
	"expired":    func(f *Figures) *int64 { return &f.Expired },
	"failed":     func(f *Figures) *int64 { return &f.Failed },
	"lost":       func(f *Figures) *int64 { return &f.Lost },
	"returned":   func(f *Figures) *int64 { return &f.Returned },
	"bought":     func(f *Figures) *int64 { return &f.Bought },
	"discarded":  func(f *Figures) *int64 { return &f.Discarded },
	"accepted":   func(f *Figures) *int64 { return &f.Accepted },
	"rejected":   func(f *Figures) *int64 { return &f.Rejected },
	"junk":       func(f *Figures) *int64 { return &f.Junk },
	"spent":      func(f *Figures) *int64 { return &f.Spent },
	"unrecorded": func(f *Figures) *int64 { return &f.Unrecorded },
}

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
	for _, counter := range counters {
		*counter(&f) -= *counter(&g)
	}
	return f
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
