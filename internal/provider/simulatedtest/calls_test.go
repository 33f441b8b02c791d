package simulatedtest

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"poold/internal/provider/wire"
	"poold/internal/testkit"
)

// The key of a submit is checked before the parameters. The submit is counted once.
func TestRefusedSubmits(t *testing.T) {
	for query, code := range map[string]string{
		recaptchaQuery("key", ""):                     wire.CodeNoKey,
		recaptchaQuery("key", "other"):                wire.CodeUnknownKey,
		recaptchaQuery("key", "other", "pageurl", ""): wire.CodeUnknownKey,
		recaptchaQuery() + "&x=%zz":                   wire.CodeBadParams,
	} {
		s := New(optionsWith(func(o *Options) { o.Key = "k" }))
		testkit.Equal(t, "plain", get(t, s, query), code)
		v := decode(t, get(t, s, query+"&json=1"))
		testkit.Equal(t, "json status", v["status"], any(0.0))
		testkit.Equal(t, "json request", v["request"], any(code))
		testkit.Equal(t, "submitted", s.Totals().Submitted, 0)
		testkit.Equal(t, "refused", s.Totals().Refused, 2)
	}
	for body, code := range map[string]string{
		strings.Replace(createBody(`"type":"RecaptchaV2TaskProxyless"`), `"k"`, `""`, 1):  wire.CodeUnknownKey,
		strings.Replace(createBody(`"type":"RecaptchaV2TaskProxyless"`), `"k"`, `"x"`, 1): wire.CodeUnknownKey,
		`{"clientKey":"k"}`: wire.CodeTaskAbsent,
	} {
		s := New(optionsWith(func(o *Options) { o.Key = "k" }))
		v := post(t, s, "/createTask", body)
		testkit.Equal(t, "code", v["errorCode"], any(code))
		testkit.Equal(t, "number", v["errorId"], any(float64(wire.ErrorID(code))))
		if v["errorDescription"] == nil || v["taskId"] != nil || s.Totals().Refused != 1 {
			t.Errorf("answer %v, %+v", v, s.Totals())
		}
	}
}

func TestLegacyResultActions(t *testing.T) {
	s := New(optionsWith(func(o *Options) { o.Key = "k"; o.Threads = 3 }))
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
	testkit.Equal(t, "no limit of threads", get(t, New(Options{}), "/res.php?key=k&action=threadsinfo"),
		`{"status":1,"threads":100000,"working_threads":0,"free_threads":100000}`)
}

func TestTasksOtherCalls(t *testing.T) {
	s := New(optionsWith(func(o *Options) { o.Key = "k" }))
	for _, c := range []struct {
		path, body string
		field      string
		want       any
	}{
		{"/getBalance", `{"clientKey":"k"}`, "balance", 600.0},
		{"/getBalance", `{"clientKey":"x"}`, "errorCode", wire.CodeUnknownKey},
		{"/getBalance", `{`, "errorCode", wire.CodeBadParams},
		{"/getTaskResult", `{"clientKey":"x","taskId":1}`, "errorCode", wire.CodeUnknownKey},
		{"/getTaskResult", `{"clientKey":"k"}`, "errorCode", wire.CodeNoTask},
		{"/getTaskResult", `{"clientKey":"k","taskId":12}`, "errorCode", wire.CodeNoTask},
		{"/getTaskResult", `{"clientKey":"k","taskId":{}}`, "errorCode", wire.CodeBadParams},
	} {
		testkit.Equal(t, c.path+" "+c.body, post(t, s, c.path, c.body)[c.field], c.want)
	}
}

// Each report path of the tasks protocol accepts one report per task.
func TestTasksReports(t *testing.T) {
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
			s := New(optionsWith(func(o *Options) { o.Key = "k" }))
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
			testkit.Equal(t, "ledger", s.Sold()[0].Reported, c.word)
			testkit.Equal(t, "unknown", report("k", "12"), any(wire.CodeNoTask))
			testkit.Equal(t, "no id", report("k", "null"), any(wire.CodeNoTask))
			testkit.Equal(t, "counted", s.Totals().ByAction[Report], 6)
			s.SetFaults(Fault{On: Report, Kind: Code, Code: "ERROR_X", When: func(call Call) bool { return call.Task == id }})
			testkit.Equal(t, "a fault", report("k", id), any("ERROR_X"))
		})
	}
}

// The legacy protocol records one report per task.
func TestLegacyReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(constantOptions)
		id := buy(t, s)
		time.Sleep(constantOptions.Median)
		testkit.Equal(t, "report", get(t, s, "/res.php?key=k&action=reportbad&id="+id), "OK_REPORT_RECORDED")
		testkit.Equal(t, "again", get(t, s, "/res.php?key=k&action=reportgood&id="+id), "ERROR_DUPLICATE_REPORT")
		testkit.Equal(t, "report in the ledger", s.Sold()[0].Reported, "bad")
	})
}
