package pool

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// counters are the fields of Figures by their names in the stats hash: the fields' names in
// lower case.
var counters = fieldsByName()

func fieldsByName() map[string]int {
	named := map[string]int{}
	for field := range reflect.TypeFor[Figures]().Fields() {
		named[strings.ToLower(field.Name)] = field.Index[0]
	}
	return named
}

// counter returns the counter of a field.
func (f *Figures) counter(field int) *int64 {
	return reflect.ValueOf(f).Elem().Field(field).Addr().Interface().(*int64)
}

// add adds to the counter of a name in the stats hash. It ignores names of other versions.
func (f *Figures) add(name, value string) {
	if field, known := counters[name]; known {
		count, _ := strconv.ParseInt(value, 10, 64)
		*f.counter(field) += count
	}
}

// Day are the figures of one UTC day.
type Day struct {
	Date    string // 2006-01-02
	Figures Figures
}

// Days are the figures of the days on which there were any, of the last seven, today
// first. They are those of Figures, split: what happened before the first day that is
// known is in none.
func (s *Stock) Days(today time.Time) []Day { return days(s.Figures, s.dayStarts, today) }

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
	if s.dayStarts == nil {
		s.dayStarts = map[int64]string{}
	}
	s.dayStarts[day] = figures
}

// minus is what f has more than g, counter by counter.
func (f Figures) minus(g Figures) Figures {
	for _, field := range counters {
		*f.counter(field) -= *g.counter(field)
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
