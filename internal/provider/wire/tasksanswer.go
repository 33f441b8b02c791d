package wire

import "poold/internal/captcha"

// TasksAnswer is the body of every response of the tasks protocol, and of its callbacks.
type TasksAnswer struct {
	ErrorID          int      `json:"errorId"`
	ErrorCode        string   `json:"errorCode,omitempty"`
	ErrorDescription string   `json:"errorDescription,omitempty"`
	TaskID           int64    `json:"taskId,omitempty"`
	Status           string   `json:"status,omitempty"`
	Solution         any      `json:"solution,omitempty"` // the result of the function Solved
	Cost             string   `json:"cost,omitempty"`
	IP               string   `json:"ip,omitempty"`
	CreateTime       int64    `json:"createTime,omitempty"` // in Unix seconds
	EndTime          int64    `json:"endTime,omitempty"`
	SolveCount       int      `json:"solveCount,omitempty"`
	Balance          *float64 `json:"balance,omitempty"`
}

type solution struct {
	Recaptcha string `json:"gRecaptchaResponse,omitempty"` // also for hCaptcha
	Token     string `json:"token,omitempty"`
	Text      string `json:"text,omitempty"` // the text of a picture
	UserAgent string `json:"userAgent,omitempty"`
}

// Solved returns the object `solution` of a solved task, with the user agent. The solution
// consists of either the text or the named values.
func Solved(t captcha.Type, text string, values map[string]string, agent string) any {
	switch t {
	case captcha.Turnstile:
		return solution{Token: text, UserAgent: agent}
	case captcha.Image:
		return solution{Text: text, UserAgent: agent}
	case captcha.GeeTest, captcha.GeeTestV4:
		if agent != "" {
			values["userAgent"] = agent
		}
		return values
	}
	return solution{Recaptcha: text, UserAgent: agent}
}

// TasksError returns the response with an error code of the tasks protocol. For CodeNotReady it
// returns a status instead of an error. The argument why is an explanation for people.
func TasksError(code, why string) TasksAnswer {
	if code == CodeNotReady {
		return TasksAnswer{Status: "processing"}
	}
	return TasksAnswer{ErrorID: ErrorID(code), ErrorCode: code, ErrorDescription: why}
}
