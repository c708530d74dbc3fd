#!/usr/bin/env bash
# Explores the model in this folder: all states of the design as it is, then of designs that are broken on purpose, each
# of which has to fail. test/model/run.sh [VARIANT…] runs some only: design, or names of the table below.
# LOG and NET set the bounds of the design (docs/MODEL.md), MEMORY its limit in MB.
set -euo pipefail
cd "${0%/*}"

cc=${CC:-cc}
for need in spin "$cc"; do
	if ! command -v "${need%% *}" >/dev/null; then
		echo "make model: $need is missing: it needs Spin and a C compiler (Debian: apt-get install spin gcc)" >&2
		exit 1
	fi
done

# What breaks each variant, and what the design says instead.
broken() {
	cat <<-'END'
		NO_AT                 records count wherever they land
		NOT_OWNED_AFTER_SENT  "not owned" is answered for a batch that was sent and has no answer
		NEW_BATCH_ON_RETRY    what has no answer is sent again for the present end of the log
		LAST_REFUSAL_DECIDES  "not stored" is answered when only the latest copy was refused
		NO_GAP                an acknowledgement is taken for "stored" wherever the batch landed
		NO_FENCE              an owner that finds a foreign takeover goes on
		OPEN_EARLY            the gate opens before loading has reached the takeover
		ENDED_APPLIES         a tenure that has ended still writes to the local store
		NO_LEASE              reads are not held against the lease
		LEASE_TOO_LONG        the lease outlives the group's patience
	END
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

build() { # NAME LOG NET CFLAGS…: leaves $work/NAME/pan
	local name=$1 defines=("-DLOG=$2" "-DNET=$3")
	shift 3
	[ "$name" = design ] || defines+=("-D$name")
	mkdir -p "$work/$name"
	cp ./*.pml "$work/$name"
	cd "$work/$name"
	echo "${defines[@]}" >defines
	spin "${defines[@]}" -a chathome.pml >spin.log || { cat spin.log >&2; exit 1; }
	$cc -O2 -w -DSAFETY -DNOREDUCE "$@" -o pan pan.c
	cd "$OLDPWD"
}

explore() { # NAME ARGS…: runs pan and prints what it says: states, depth, seconds, MB, verdict
	local name=$1 start=$SECONDS
	shift
	(cd "$work/$name" && ./pan -E "$@") >"$work/$name/log" 2>&1 || true
	awk -v name="$name" -v seconds=$((SECONDS - start)) '
		/states, stored/ { states = $1 }
		/depth reached/ { sub(/.*depth reached /, ""); depth = $1 + 0 }
		/total actual memory/ { mb = $1 }
		/errors: [1-9]/ || /assertion violated/ { wrong = 1 }
		/max search depth too small|out of memory|aborting|not completed|reached -DMEMLIM/ { if (!wrong) short = 1 }
		END {
			verdict = wrong ? "violated" : (short || states == "" ? "incomplete" : "holds")
			printf "%-22s %10d states  depth %7d  %4d s  %5d MB  %s\n", name, states, depth, seconds, mb, verdict
		}' "$work/$name/log"
}

counterexample() { # NAME: in words
	(
		cd "$work/$1"
		read -ra defines <defines
		spin -DREPLAY "${defines[@]}" -t chathome.pml
	) | awk -v here="$work/$1" '
		/^spin: .*Error: assertion violated/ && !at {
			split($2, place, ":"); at = place[2] + 0
			while ((getline line < (here "/" place[1])) > 0)
				if (++n == at && match(line, /\/\* .* \*\//)) what = substr(line, RSTART + 3, RLENGTH - 6)
			printf "      => %s (%s)\n", what == "" ? "assertion violated" : what, place[1] ":" at
		}
		at || /^spin:/ { next }
		{ sub(/^ +/, ""); printf "  %4d. %s\n", ++step, $0 }'
}

wanted=" $* "
want() { [ "$wanted" = "  " ] || [[ $wanted == *" $1 "* ]]; }

if want design; then
	build design "${LOG:-4}" "${NET:-3}" "-DMEMLIM=${MEMORY:-4000}"
	line=$(explore design -m4000000 -w24)
	echo "$line"
	if [[ $line == *violated ]]; then
		(cd "$work/design" && $cc -O2 -w -DSAFETY -DNOREDUCE -DBFS -o pan pan.c && ./pan -E >log 2>&1) || true
		counterexample design
	fi
	[[ $line == *holds ]] || failed=1
fi

while read -r name why; do
	want "$name" || continue
	build "$name" 4 2 -DBFS "-DMEMLIM=${MEMORY:-4000}" # breadth first: the shortest counterexample
	line=$(explore "$name" -w20)
	echo
	echo "$line: $why"
	if [[ $line == *violated ]]; then
		counterexample "$name"
	else
		echo "$name: this broken variant was not found out" >&2
		failed=1
	fi
done < <(broken)

exit $failed
