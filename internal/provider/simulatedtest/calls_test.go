package simulatedtest

import (
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/provider/wire"
	"poold/internal/testkit"
)

func TestInPHPResultActions(t *testing.T) {
	s := New(optionsWith(func(o *Setup) { o.Key = "k"; o.Threads = 3 }))
	id := buy(t, s)
	for query, answer := range map[string]string{
		"action=get&id=" + id:                wire.CodeNoKey,
		"key=x&action=get&id=" + id:          wire.CodeUnknownKey,
		"key=x&action=getbalance":            wire.CodeUnknownKey,
		"key=x&action=reportbad&id=" + id:    wire.CodeUnknownKey,
		"key=k&id=" + id:                     wire.CodeEmptyAction,
		"key=k&action=dance":                 wire.CodeBadParams,
		"key=k&action=get":                   wire.CodeIDFormat,
		"key=k&action=get&id=12a":            wire.CodeIDFormat,
		"key=k&action=get&id=12":             wire.CodeUnknownTask,
		"key=k&action=getbalance":            "600",
		"key=k&action=getbalance&json=1":     `{"status":1,"request":"600"}`,
		"key=k&action=reportbad&id=" + id:    wire.CodeNotRecorded,
		"key=k&action=reportbad&id=12":       wire.CodeUnknownTask,
		"key=k&action=reportbad&id=x":        wire.CodeIDFormat,
		"key=k&action=threadsinfo&json=1":    `{"status":1,"threads":3,"working_threads":1,"free_threads":2}`,
		"key=k&action=get&ids=" + id + ",12": wire.CodeBadParams,
	} {
		testkit.Equal(t, query, get(t, s, "/res.php?"+query), answer)
	}
	testkit.Equal(t, "no limit of threads", get(t, New(Setup{}), "/res.php?key=k&action=threadsinfo"),
		`{"status":1,"threads":100000,"working_threads":0,"free_threads":100000}`)
}

// Each task accepts one report, by each path of the protocol create_task and by in_php.
func TestReports(t *testing.T) {
	picture := `{"clientKey":"k","task":{"type":"ImageToTextTask","body":"R0lGODlh"}}`
	of := func(kind string) string { return createBody(`"type":"` + kind + `TaskProxyless"`) }
	for _, c := range []struct{ path, body, word string }{
		{"/reportCorrect", of("RecaptchaV2"), "good"},
		{"/reportIncorrect", of("Turnstile"), "bad"},
		{"/reportCorrectRecaptcha", of("RecaptchaV3"), "good"},
		{"/reportIncorrectRecaptcha", of("RecaptchaV2"), "bad"},
		{"/reportIncorrectHcaptcha", of("HCaptcha"), "bad"},
		{"/reportIncorrectImageCaptcha", picture, "bad"},
		{"/reportIncorrectTokenCaptcha", of("Turnstile"), "bad"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(optionsWith(func(o *Setup) { o.Key = "k" }))
			report := func(key, id string) any {
				v := post(t, s, c.path, `{"clientKey":"`+key+`","taskId":`+id+`}`)
				if v["errorId"] == 0.0 {
					return v["status"]
				}
				return v["errorCode"]
			}
			id := orderTask(t, s, c.body)
			testkit.Equal(t, "early", report("k", id), any(wire.CodeNoTask))
			time.Sleep(constantOptions.Median)
			testkit.Equal(t, "another's key", report("x", id), any(wire.CodeUnknownKey))
			testkit.Equal(t, "not yet in the ledger", s.Sold()[0].Reported, "")
			testkit.Equal(t, "first", report("k", id), any("success"))
			testkit.Equal(t, "as text", report("k", `"`+id+`"`), any(wire.CodeDuplicate))
			testkit.Equal(t, "in_php", get(t, s, "/res.php?key=k&action=reportbad&id="+id), wire.CodeDuplicate)
			testkit.Equal(t, "ledger", s.Sold()[0].Reported, c.word)
			testkit.Equal(t, "unknown", report("k", "12"), any(wire.CodeNoTask))
			testkit.Equal(t, "no id", report("k", "null"), any(wire.CodeNoTask))
			testkit.Equal(t, "counted", s.Totals().ByAction[wire.Report], 7)
			s.SetFaults(Fault{On: "report", Kind: Code, Code: "ERROR_X", When: func(a Attempt) bool { return a.Task == id }})
			testkit.Equal(t, "a fault", report("k", id), any("ERROR_X"))
		})
	}
}
