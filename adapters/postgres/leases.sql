-- A lease that ends by itself gives back what was not handed out of it, and accounts say when they were begun.

ALTER TABLE stepfall.accounts ADD COLUMN begun_ns bigint NOT NULL DEFAULT stepfall.now_ns();
CREATE INDEX accounts_by_begun ON stepfall.accounts (begun_ns);

-- How much of a reservation is given back when nobody settles it in time.
ALTER TABLE stepfall.holds ALTER COLUMN returns TYPE bigint USING CASE WHEN returns THEN amount ELSE 0 END;

CREATE OR REPLACE FUNCTION stepfall.hold(p_id bigint, p_account text, p_period bigint, p_amount bigint, p_cap bigint, p_returns boolean, p_ttl bigint)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
	UPDATE stepfall.accounts SET reserved = reserved + p_amount
		WHERE account = p_account AND period = p_period AND (p_cap = 0 OR spent + reserved + p_amount <= p_cap);
	IF NOT FOUND THEN
		INSERT INTO stepfall.accounts (account, period) VALUES (p_account, p_period) ON CONFLICT DO NOTHING;
		UPDATE stepfall.accounts SET reserved = reserved + p_amount
			WHERE account = p_account AND period = p_period AND (p_cap = 0 OR spent + reserved + p_amount <= p_cap);
		IF NOT FOUND THEN
			RETURN false;
		END IF;
	END IF;
	INSERT INTO stepfall.holds (id, account, period, amount, returns, until_ns)
		VALUES (p_id, p_account, p_period, p_amount, CASE WHEN p_returns THEN p_amount ELSE 0 END, stepfall.now_ns() + p_ttl);
	RETURN true;
END $$;

-- A lease of which one part of p_share, at least p_least, is taken for handed out.
CREATE FUNCTION stepfall.lease_part(p_store bigint, p_id bigint, p_account text, p_amount bigint, p_least bigint, p_cap bigint, p_period bigint,
	p_share bigint, p_ttl bigint, OUT refused bigint, OUT remains bigint, OUT until_ns bigint, OUT granted bigint, OUT now_ns bigint) LANGUAGE plpgsql AS $$
BEGIN
	SELECT l.* INTO refused, remains, until_ns, granted, now_ns
		FROM stepfall.lease(p_store, p_id, p_account, p_amount, p_least, p_cap, p_period, p_share, p_ttl) l;
	UPDATE stepfall.holds h SET returns = h.amount - greatest(p_least, h.amount / p_share) WHERE h.id = p_id;
END $$;

CREATE OR REPLACE FUNCTION stepfall.settle(p_id bigint, p_accounts text[], p_spent bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	h record;
	more bigint;
BEGIN
	FOR h IN WITH gone AS (DELETE FROM stepfall.holds WHERE id = p_id RETURNING *) SELECT * FROM gone ORDER BY account LOOP
		more := coalesce(p_spent[array_position(p_accounts, h.account)], 0);
		UPDATE stepfall.accounts SET spent = spent + more - CASE WHEN h.expired THEN h.amount - h.returns ELSE 0 END,
			reserved = reserved - CASE WHEN h.expired THEN 0 ELSE h.amount END WHERE account = h.account AND period = h.period;
	END LOOP;
	-- When the server crashes, the worst case stands: that need not wait for the disk.
	PERFORM set_config('synchronous_commit', 'off', true);
END $$;

-- Says how much of each lease is handed out, and returns those that have ended.
CREATE FUNCTION stepfall.extend(p_ids bigint[], p_handed_out bigint[], p_ttl bigint) RETURNS SETOF bigint LANGUAGE sql AS $$
	WITH alive AS (
		UPDATE stepfall.holds h SET until_ns = stepfall.now_ns() + p_ttl, returns = h.amount - g.handed_out
			FROM unnest(p_ids, p_handed_out) AS g (id, handed_out) WHERE h.id = g.id AND NOT h.expired AND h.until_ns >= stepfall.now_ns() RETURNING h.id
	)
	SELECT g.id FROM unnest(p_ids) AS g (id) WHERE g.id NOT IN (SELECT id FROM alive)
$$;

CREATE OR REPLACE FUNCTION stepfall.expire() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	a record;
	n bigint := 0;
BEGIN
	FOR a IN
		WITH over AS (
			SELECT id, account FROM stepfall.holds WHERE NOT expired AND until_ns < stepfall.now_ns() ORDER BY until_ns LIMIT 500 FOR UPDATE SKIP LOCKED
		), marked AS (
			UPDATE stepfall.holds h SET expired = true FROM over WHERE h.id = over.id AND h.account = over.account RETURNING h.*
		)
		SELECT account, period, sum(amount)::bigint AS amount, sum(amount - returns)::bigint AS spends, count(*) AS n
			FROM marked GROUP BY account, period ORDER BY account, period
	LOOP
		UPDATE stepfall.accounts SET reserved = reserved - a.amount, spent = spent + a.spends WHERE account = a.account AND period = a.period;
		n := n + a.n;
	END LOOP;
	-- What nobody settled in a quarter of a year nobody will; nor are periods of that age asked for.
	DELETE FROM stepfall.holds WHERE expired AND until_ns < stepfall.now_ns() - 7776000000000000;
	RETURN n >= 500;
END $$;
