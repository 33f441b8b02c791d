-- +goose Up

-- The solves that equal requests share, by the key of these requests; package claims reads and writes the value.
create table if not exists captcha_cache (
	key        text primary key,      -- begins with the prefix of the installation and a colon
	version    bigint not null,       -- grows with each change
	value      jsonb not null,
	kept_until timestamptz not null,  -- then the row is deleted
	-- For people who look here.
	sitekey    text generated always as (value->>'sitekey') stored,
	pageurl    text generated always as (value->>'pageurl') stored,
	solution   bytea generated always as (decode(value#>>'{token,value}', 'base64')) stored,
	created_at timestamptz generated always as (to_timestamp((value->>'began')::bigint / 1000.0)) stored  -- when the solve began
);
