package pool

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"poold/internal/captcha"
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

// add adds a value to the counter that has this name in the stats hash. The hash also has fields that are no counters.
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

// Days returns the figures of the last seven days, newest day first, without the days that have no
// events. Events before the first known day belong to no day.
func (s *Stock) Days(today time.Time) []Day {
	last := today.Unix() / (24 * 60 * 60)
	list := []Day{}
	end := s.Figures
	for _, day := range slices.Backward(slices.Sorted(maps.Keys(s.dayStarts))) {
		if day <= last-7 {
			break
		}
		begin := readNoted(s.dayStarts[day])
		if f := end.plus(begin, -1); f != (Figures{}) {
			list = append(list, Day{Date: time.Unix(day*24*60*60, 0).UTC().Format(time.DateOnly), Figures: f})
		}
		end = begin
	}
	return list
}

// note records the figures at the start of a day. The argument day is the number of days since
// 1970.
func (s *Stock) note(day int64, figures string) {
	if s.dayStarts == nil {
		s.dayStarts = map[int64]string{}
	}
	s.dayStarts[day] = figures
}

// plus returns f + sign * g, counter by counter.
func (f Figures) plus(g Figures, sign int64) Figures {
	for _, field := range counters {
		*f.counter(field) += sign * *g.counter(field)
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

// Period contains the counters of minuteNames, for one minute or one hour.
type Period struct {
	At      time.Time // start of the period
	Figures Figures
	// Fresh and Want come from the looks that added counts to the period. Fresh is the lowest number
	// of fresh tokens at these looks. Want is the wanted number at the last of them; -1 = unknown.
	Fresh, Want int
}

// Hour returns the minutes of the last hour that have counts, oldest first. An event counts in the
// minute of the first look after the event. The Stock must come from LookAll with Query.Hour.
func (s *Stock) Hour(now time.Time) []Period {
	return periods(s.hour, time.Minute, now.Add(-time.Hour))
}

// LastDay returns the current UTC hour and the 23 hours before it, oldest first, without the hours
// that have no counts. An event counts in the hour of the first look after the event.
func (s *Tokens) LastDay(ctx context.Context, id captcha.ID, now time.Time) ([]Period, error) {
	if err := s.db.Away(ctx, string(id)); err != nil {
		return nil, err
	}
	k := s.keys(id)
	pipe := s.db.Slow.Pipeline()
	byHour, byMinute := pipe.Get(ctx, k.hours), pipe.Get(ctx, k.hour)
	_, _ = pipe.Exec(ctx) // returns only the first error, which may be redis.Nil
	for _, reply := range []*redis.StringCmd{byHour, byMinute} {
		if err := reply.Err(); err != nil && !errors.Is(err, redis.Nil) {
			return nil, err
		}
	}
	start := now.Truncate(time.Hour).Add(-24 * time.Hour)
	list := periods(byHour.Val(), time.Hour, start)
	if minutes := periods(byMinute.Val(), time.Minute, start.Add(time.Hour-1)); len(minutes) > 0 {
		list = addMinute(list, minutes[len(minutes)-1]) // look.lua adds the newest minute to its hour at a later look
	}
	return list, nil
}

// addMinute adds a minute to a list of hours. No hour in the list is later than the minute.
func addMinute(list []Period, minute Period) []Period {
	minute.At = minute.At.Truncate(time.Hour)
	if last := len(list) - 1; last >= 0 && list[last].At.Equal(minute.At) {
		minute.Figures = minute.Figures.plus(list[last].Figures, 1)
		minute.Fresh = min(minute.Fresh, list[last].Fresh)
		list = list[:last]
	}
	return append(list, minute)
}

// periods parses a text that look.lua stores. It skips the part before the first |. It returns the
// periods that have counts and begin after the given start, oldest first.
func periods(text string, unit time.Duration, start time.Time) []Period {
	list := []Period{}
	_, lines, _ := strings.Cut(text, "|")
	for line := range strings.SplitSeq(lines, "|") {
		word, counts, _ := strings.Cut(line, " ")
		number, err := strconv.ParseInt(word, 10, 64)
		at := time.Unix(number*int64(unit/time.Second), 0).UTC()
		if err != nil || !at.After(start) {
			continue
		}
		p := Period{At: at, Fresh: -1, Want: -1}
		for i, count := range strings.Fields(counts) {
			switch gauge := i - len(minuteNames); {
			case gauge < 0:
				p.Figures.add(minuteNames[i], count)
			case gauge == 0:
				p.Fresh, _ = strconv.Atoi(count)
			case gauge == 1:
				p.Want, _ = strconv.Atoi(count)
			}
		}
		if p.Figures != (Figures{}) {
			list = append(list, p)
		}
	}
	slices.Reverse(list)
	return list
}
