package simulated

import (
	"net/http"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// tasksRefuse answers with a code of this protocol.
func tasksRefuse(code string) answer { return answerOf(wire.JSON(tasksError(code))) }

// tasksFail says a code that both protocols share in this one's words.
func tasksFail(code string) answer { return tasksRefuse(tasksCode(code)) }

// tasksCode is this protocol's word for a code of the books.
func tasksCode(code string) string {
	if code == codeBanned {
		return wire.CodeIPBlocked
	}
	return wire.TasksCode(code)
}

func tasksError(code string) wire.TasksAnswer {
	return wire.TasksError(code, "the simulated service refuses: "+code)
}

// parseTasks reads a call of the tasks protocol.
func (s *Service) parseTasks(r *http.Request) *query {
	sent, whole := request(r)
	c := wire.ReadTasks(sent, s.opts.Flavour)
	if !whole {
		c.Bad, c.Order.Bad = wire.CodeBadParams, wire.CodeBadParams
	}
	q := &query{refuse: tasksRefuse}
	q.Action = c.Action
	switch c.Action {
	case Submit:
		o := order{
			key: c.Key, identity: c.Order.Identity, bad: c.Order.Bad, ping: pingback{url: c.Order.Pingback, form: pingJSON},
		}
		q.accept = func(n int64) answer { return answerOf(wire.JSON(wire.TasksAnswer{TaskID: n})) }
		s.submits(q, o, tasksFail)
		return q
	case Poll:
		q.Task = c.ID
		q.run = func(at time.Time) answer { return s.getResult(c, at) }
	case Balance:
		q.run = func(at time.Time) answer {
			if code := s.books.admit(c.Key, at); code != "" {
				return tasksFail(code)
			}
			left := float64(balance)
			return answerOf(wire.JSON(wire.TasksAnswer{Balance: &left}))
		}
	case Report:
		q.Task = c.ID
		q.run = func(at time.Time) answer {
			if code := s.books.report(c.Key, c.ID, c.Verdict, at); code != "" {
				return tasksFail(code)
			}
			return answerOf(wire.JSON(wire.TasksAnswer{Status: "success"}))
		}
	}
	if c.Bad != "" {
		q.run = func(time.Time) answer { return tasksFail(c.Bad) }
	}
	return q
}

func (s *Service) getResult(c wire.TasksCall, at time.Time) answer {
	n, _ := wire.TaskNumber(c.ID)
	found, code := s.books.poll(c.Key, []int64{n}, at)
	if code != "" {
		return tasksFail(code)
	}
	return answerOf(wire.JSON(tasksResult(&found[0], s.opts)))
}

// tasksResult is the answer to a poll, and the content of a pingback.
func tasksResult(o *outcome, opts *Options) wire.TasksAnswer {
	if o.code != "" {
		return tasksError(tasksCode(o.code))
	}
	t := &o.task
	var values map[string]string
	if captcha.HasNamed(t.identity.Type) {
		values = t.values(opts)
	}
	return wire.TasksAnswer{
		Status: "ready", Solution: wire.Solved(t.identity.Type, o.token, values, opts.userAgent(t)), Cost: price, IP: "127.0.0.1",
		CreateTime: t.at.Unix(), EndTime: t.due.Unix(), SolveCount: 1,
	}
}
