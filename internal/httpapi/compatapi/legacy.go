package compatapi

import (
	"strconv"
	"strings"

	"poold/internal/captcha"
	"poold/internal/compat"
	"poold/internal/httpapi/base"
	"poold/internal/provider/wire"
)

// mostIDs is the maximum number of tasks that one call of res.php can poll.
const mostIDs = 50

// ServeLegacy handles /in.php and /res.php.
func (p *Routes) ServeLegacy(c *base.Context) error {
	return p.serve(c, func(sent wire.Request) call {
		asked := wire.ReadLegacy(sent)
		if asked.Form.CORS && len(c.Access.Callers) > 0 {
			// Any web page may read the reply, because browsers add no credentials to this call: the page
			// must already know a key.
			c.Response().Header().Set("Access-Control-Allow-Origin", "*")
		}
		return call{
			asked.Key, asked.Bad, asked.Action,
			func(keepPicture func() (release func())) (wire.Reply, error) {
				return p.legacyDo(c, &asked, keepPicture)
			},
			func(says codes) wire.Reply { return asked.Form.Fail(says.legacy, says.why) },
		}
	})
}

// legacyDo executes a call. If legacyDo has already written the response, the returned reply is
// empty.
func (p *Routes) legacyDo(c *base.Context, asked *wire.LegacyCall, keepPicture func() (release func())) (wire.Reply, error) {
	form := asked.Form
	switch asked.Action {
	case wire.Submit:
		number, err := p.submit(c, asked.Order, keepPicture)
		return form.Say("OK|"+number, wire.LegacyAnswer{Status: 1, Request: number}), err
	case wire.Poll:
		if asked.Many {
			return wire.Reply{}, p.legacyMany(c, asked)
		}
		got, err := p.poll(c, asked.IDs[0])
		if err != nil {
			return wire.Reply{}, err
		}
		return wire.Reply{}, p.answerSolved(c, &got, legacySolved(form, &got, asked.Priced))
	case wire.Report:
		return form.Bare("OK_REPORT_RECORDED"), p.report(c, asked.IDs[0], asked.Verdict)
	case wire.Balance:
		left, err := p.balance(c)
		return form.Bare(strconv.FormatFloat(left, 'f', -1, 64)), err
	case wire.Threads:
		return wire.JSON(threads(p.Status.Build(c.Ctx()))), nil
	case wire.Other:
		if asked.Word == "" {
			return wire.Reply{}, compat.NoAction
		}
	}
	return wire.Reply{}, unsupported("the action "+displayName(asked.Word), "action")
}

// Clients of the legacy protocol get legacyPrice as the price of every token.
const legacyPrice = "0"

func legacySolved(form wire.Form, got *compat.Result, priced bool) wire.Reply {
	token := &got.Token
	v := wire.LegacyAnswer{Status: 1, Request: token.Value, UserAgent: token.UserAgent, Useragent: token.UserAgent}
	if values := captcha.Named(got.Type, token.Value); values != nil {
		prefix := ""
		if got.Type == captcha.GeeTest {
			prefix = "geetest_"
		}
		object := make(map[string]string, len(values))
		for name, value := range values {
			object[prefix+name] = value
		}
		v.Request = object
	}
	text := "OK|" + token.Value
	if priced {
		v.Price, text = legacyPrice, text+"|"+legacyPrice
	}
	return form.Say(text, v)
}

// legacyMany polls several tasks for one call. The reply has one value or code per id, in the order
// of the ids.
func (p *Routes) legacyMany(c *base.Context, asked *wire.LegacyCall) error {
	if len(asked.IDs) > mostIDs {
		return unsupported("more than "+strconv.Itoa(mostIDs)+" ids in one call", "ids")
	}
	for _, id := range asked.IDs {
		if _, ok := wire.TaskNumber(id); !ok {
			return compat.BadID
		}
	}
	values := make([]string, len(asked.IDs))
	var found []compat.Result
	for i, id := range asked.IDs {
		got, err := p.poll(c, id)
		if err != nil {
			values[i] = p.codesOf(c, err).legacy
			continue
		}
		values[i] = got.Token.Value
		found = append(found, got)
	}
	reply := asked.Form.Bare(strings.Join(values, "|"))
	if len(found) == 0 {
		return write(c, reply)
	}
	last := len(found) - 1
	for i := range found[:last] {
		p.Arrived(c, handout(c, &found[i]))
	}
	return p.answerSolved(c, &found[last], reply)
}
