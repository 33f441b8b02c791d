-- +goose Up

-- One solve that equal requests share, by the key of these requests.
create table if not exists captcha_cache (
	key          text primary key,      -- begins with the prefix and a colon
	prefix       text not null,         -- of the installation that owns the row
	sitekey      text not null,         -- with pageurl: for people who look here
	pageurl      text not null,
	solution     bytea,                 -- while it is shared
	created_at   timestamptz not null,  -- when the solve began
	ends_at      timestamptz not null,  -- until then the solve may go on; once it has ended: until then its solution is shared
	solve        text not null,         -- names the solve, whoever holds it
	fence        bigint not null,       -- grows with each holder
	holder       text not null,         -- names the call that made the holder
	identity     text not null,         -- whose stock the solve takes from
	leased_until timestamptz not null,  -- later than that another replica may hold it
	wanted_until timestamptz not null,  -- until then some replica waits for it
	outcome      bytea,                 -- a hash of how the solve ended
	-- The last failure of this key stays beside a newer solve.
	failed_solve text,
	failed_until timestamptz,
	failure      bytea,
	kept_until   timestamptz not null   -- later than that nobody asks for the row
);

-- Requests to /solve by UTC day and by where their token came from.
create table if not exists captcha_savings (
	day      date not null,
	source   text not null,         -- begins with the prefix and a colon
	prefix   text not null,         -- of the installation that owns the row
	requests bigint not null,
	primary key (day, source)
);
