package simulated

import (
	"cmp"
	"net/http"
	"time"

	"poold/internal/captcha"
	"poold/internal/provider/wire"
)

// tasksRefuse returns the answer with an error code of the tasks protocol.
func tasksRefuse(code string) answer { return answerOf(wire.JSON(tasksError(code))) }

// tasksFail returns the answer with an error code from books. books uses the codes of the
// legacy protocol.
func tasksFail(code string) answer { return tasksRefuse(wire.TasksCode(code)) }

func tasksError(code string) wire.TasksAnswer {
	return wire.TasksError(code, "the simulated service refuses: "+code)
}

// parseTasks parses a call of the tasks protocol.
func (s *Service) parseTasks(r *http.Request) *query {
	sent, whole := readRequest(r)
	c := wire.ReadTasks(sent)
	if !whole {
		c.Bad, c.Order.Bad = wire.CodeBadParams, wire.CodeBadParams
	}
	q := &query{refuse: tasksRefuse}
	q.Action = c.Action
	if c.Action == Submit {
		o := order{
			identity: c.Order.Identity, bad: cmp.Or(s.keyError(c.Key), c.Order.Bad),
			ping: pingback{url: c.Order.Pingback, form: pingJSON},
		}
		q.accept = func(n int64) answer { return answerOf(wire.JSON(wire.TasksAnswer{TaskID: n})) }
		s.setSubmission(q, o, tasksFail)
		return q
	}
	q.Task = c.ID
	q.run = func(at time.Time) answer {
		if code := cmp.Or(c.Bad, s.keyError(c.Key)); code != "" {
			return tasksFail(code)
		}
		return s.runTasks(c, at)
	}
	return q
}

// runTasks executes a call that is not a submission.
func (s *Service) runTasks(c wire.TasksCall, at time.Time) answer {
	switch c.Action {
	case Poll:
		n, _ := wire.TaskNumber(c.ID)
		return answerOf(wire.JSON(tasksResult(s.books.poll(n, at), s.opts)))
	case Balance:
		return answerOf(wire.JSON(wire.TasksAnswer{Balance: &s.opts.Balance}))
	}
	if code := s.books.report(c.ID, c.Verdict, at); code != "" {
		return tasksFail(code)
	}
	return answerOf(wire.JSON(wire.TasksAnswer{Status: "success"}))
}

// tasksResult converts an outcome to the response to a poll. A pingback has the same content.
func tasksResult(o outcome, opts *Options) wire.TasksAnswer {
	if o.code != "" {
		return tasksError(wire.TasksCode(o.code))
	}
	t := &o.task
	var values map[string]string
	if captcha.HasNamed(t.identity.Type) {
		values = t.namedValues(opts)
	}
	return wire.TasksAnswer{
		Status: "ready", Solution: wire.Solved(t.identity.Type, o.token, values, opts.userAgent(t)),
		Cost: price, IP: "127.0.0.1",
		CreateTime: t.at.Unix(), EndTime: t.due.Unix(), SolveCount: 1,
	}
}
