package kernel

import "net/http"

// Code is the stable word of a problem, for programs.
type Code string

// The codes; docs/api.md.
const (
	CodeBadRequest      Code = "bad_request"
	CodeUnauthorized    Code = "unauthorized"
	CodeForbidden       Code = "forbidden"
	CodeUnknownTarget   Code = "unknown_target"
	CodeUnknownToken    Code = "unknown_token"
	CodeUnknownSolve    Code = "unknown_solve"
	CodeNoHistory       Code = "no_history"
	CodeNoAudit         Code = "no_audit"
	CodeNotFound        Code = "not_found"
	CodeMethod          Code = "method_not_allowed"
	CodeConflict        Code = "idempotency_conflict"
	CodeReported        Code = "already_reported"
	CodePausedInFile    Code = "paused_in_file"
	CodeWindows         Code = "too_many_windows"
	CodeTooLarge        Code = "too_large"
	CodeMisdirected     Code = "misdirected_request"
	CodeInvalidConfig   Code = "invalid_config"
	CodeRateLimited     Code = "rate_limited"
	CodeInternal        Code = "internal"
	CodePoolEmpty       Code = "pool_empty"
	CodePaused          Code = "paused"
	CodeBudget          Code = "budget_exhausted"
	CodeProviderDown    Code = "provider_down"
	CodeStoreDown       Code = "store_down"
	CodeShuttingDown    Code = "shutting_down"
	CodeStreams         Code = "too_many_streams"
	CodeOverloaded      Code = "overloaded"
	CodeSolveRefused    Code = "solve_refused"
	CodeUnknownProvider Code = "unknown_provider"
	CodeSolveFailed     Code = "solve_failed"
	CodeSolveTimeout    Code = "solve_timeout"
)

// meanings holds the HTTP status and the title of each code.
var meanings = map[Code]struct {
	status int
	title  string
}{
	CodeBadRequest:      {http.StatusBadRequest, "The request is malformed"},
	CodeUnauthorized:    {http.StatusUnauthorized, "A key is needed"},
	CodeForbidden:       {http.StatusForbidden, "This caller may not do that"},
	CodeUnknownTarget:   {http.StatusNotFound, "There is no such target"},
	CodeUnknownToken:    {http.StatusNotFound, "There is no such token"},
	CodeUnknownSolve:    {http.StatusNotFound, "There is no such solve"},
	CodeNoHistory:       {http.StatusNotFound, "No history is kept"},
	CodeNoAudit:         {http.StatusNotFound, "No audit is kept"},
	CodeNotFound:        {http.StatusNotFound, "There is no such page"},
	CodeUnknownProvider: {http.StatusNotFound, "There is no such provider"},
	CodeMethod:          {http.StatusMethodNotAllowed, "The method is not allowed here"},
	CodeConflict:        {http.StatusConflict, "The Idempotency-Key was used for another request"},
	CodeReported:        {http.StatusConflict, "The token was reported before"},
	CodePausedInFile:    {http.StatusConflict, "The target is paused in the configuration file"},
	CodeWindows:         {http.StatusConflict, "The target has too many warm windows"},
	CodeTooLarge:        {http.StatusRequestEntityTooLarge, "The body is too large"},
	CodeMisdirected:     {http.StatusMisdirectedRequest, "The Host is not this machine"},
	CodeInvalidConfig:   {http.StatusUnprocessableEntity, "The configuration file is not valid"},
	CodeRateLimited:     {http.StatusTooManyRequests, "Too many requests"},
	CodePoolEmpty:       {http.StatusServiceUnavailable, "No token is ready"},
	CodePaused:          {http.StatusServiceUnavailable, "No token is ready and buying is paused"},
	CodeBudget:          {http.StatusServiceUnavailable, "No token is ready and the budget is used up"},
	CodeProviderDown:    {http.StatusServiceUnavailable, "No token is ready and no provider can be asked"},
	CodeStoreDown:       {http.StatusServiceUnavailable, "The store cannot be used"},
	CodeShuttingDown:    {http.StatusServiceUnavailable, "The daemon is stopping"},
	CodeStreams:         {http.StatusServiceUnavailable, "Too many streams are open"},
	CodeOverloaded:      {http.StatusServiceUnavailable, "Too many large bodies wait"},
	CodeSolveRefused:    {http.StatusUnprocessableEntity, "The solving service refuses this"},
	CodeSolveFailed:     {http.StatusBadGateway, "The solving service brought no token"},
	CodeSolveTimeout:    {http.StatusGatewayTimeout, "No token came in time"},
	CodeInternal:        {http.StatusInternalServerError, "Something went wrong inside poold"},
}
