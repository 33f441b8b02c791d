package pool

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// counters maps the name of a counter in the stats hash to the index of its field in Figures. The
// name is the name of the field in lower case.
var counters = fieldsByName()

func fieldsByName() map[string]int {
	named := map[string]int{}
	for field := range reflect.TypeFor[Figures]().Fields() {
		named[strings.ToLower(field.Name)] = field.Index[0]
	}
	return named
}

// counter returns a pointer to the counter at this field index.
func (f *Figures) counter(field int) *int64 {
	return reflect.ValueOf(f).Elem().Field(field).Addr().Interface().(*int64)
}

// add adds a value to the counter with this name in the stats hash. Unknown names may come from other
// versions and are ignored.
func (f *Figures) add(name, value string) {
	if field, known := counters[name]; known {
		count, _ := strconv.ParseInt(value, 10, 64)
		*f.counter(field) += count
	}
}

// Day is one UTC day and its figures.
type Day struct {
	Date    string // 2006-01-02
	Figures Figures
}

// Days returns the figures of those of the last seven days that have events, newest day first. Events
// before the first known day belong to no day.
func (s *Stock) Days(today time.Time) []Day {
	last := today.Unix() / (24 * 60 * 60)
	list := []Day{}
	end := s.Figures
	for _, day := range slices.Backward(slices.Sorted(maps.Keys(s.dayStarts))) {
		if day <= last-7 {
			break
		}
		begin := readNoted(s.dayStarts[day])
		if f := end.minus(begin); f != (Figures{}) {
			list = append(list, Day{Date: time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly), Figures: f})
		}
		end = begin
	}
	return list
}

// note records the figures at the start of a day. The argument day is the number of days since 1970.
func (s *Stock) note(day int64, figures string) {
	if s.dayStarts == nil {
		s.dayStarts = map[int64]string{}
	}
	s.dayStarts[day] = figures
}

// minus returns f - g, counter by counter.
func (f Figures) minus(g Figures) Figures {
	for _, field := range counters {
		*f.counter(field) -= *g.counter(field)
	}
	return f
}

// readNoted parses figures in the form "name value name value ...".
func readNoted(text string) (f Figures) {
	for words := strings.Fields(text); len(words) >= 2; words = words[2:] {
		f.add(words[0], words[1])
	}
	return f
}

// dayOf returns the number N of a field "day:N" of the stats hash; false for other fields.
func dayOf(field string) (day int64, is bool) {
	number, is := strings.CutPrefix(field, "day:")
	if !is {
		return 0, false
	}
	day, err := strconv.ParseInt(number, 10, 64)
	return day, err == nil
}

// minuteNames are the names of the counters that look.lua keeps for each minute, in the stored order.
var minuteNames = []string{"requests", "hits", "waited", "misses", "bought", "solved"}

// Minute has the counters of minuteNames for one minute.
type Minute struct {
	At      time.Time // start of the minute
	Figures Figures
	// Fresh is the lowest number of fresh tokens at the looks that noted the counters, and Want the
	// wanted number at the last of them; -1 = unknown.
	Fresh, Want int
}

// Hour returns the minutes of the last hour that have counts, oldest first. An event counts in the
// minute of the first look after the event. The Stock must come from LookAll with Query.Hour.
func (s *Stock) Hour(now time.Time) []Minute {
	list := []Minute{}
	_, lines, _ := strings.Cut(s.hour, "|") // only look.lua needs the part before the first |
	for line := range strings.SplitSeq(lines, "|") {
		word, counts, _ := strings.Cut(line, " ")
		minute, err := strconv.ParseInt(word, 10, 64)
		at := time.Unix(60*minute, 0).UTC()
		if err != nil || now.Sub(at) >= time.Hour {
			continue
		}
		m := Minute{At: at, Fresh: -1, Want: -1}
		for i, count := range strings.Fields(counts) {
			switch gauge := i - len(minuteNames); {
			case gauge < 0:
				m.Figures.add(minuteNames[i], count)
			case gauge == 0:
				m.Fresh, _ = strconv.Atoi(count)
			case gauge == 1:
				m.Want, _ = strconv.Atoi(count)
			}
		}
		if m.Figures != (Figures{}) {
			list = append(list, m)
		}
	}
	slices.Reverse(list)
	return list
}
