"""Verbs with what stands with them. A line: synonyms | classes of objects | optional roles | roles that must be there.
The letters of optional roles: p place, t time, d for how long, D in how long, m price, w instrument, b for whom, c
with whom, r reason, u purpose, f how often, k condition, M of what, G into where, g goal, s starting point, h
vehicle, o about what, A as what, C colour, T through what, y until when, W with what stuff, V in what vessel, F in
what fat, L in what liquid, z at what heat, K with what of the kitchen's, E with what food, n with what dish."""

PERSON = """
mend/repair/fix | clothes furniture machines vehicles instruments fittings valuables | ptDwmbr
clean/scrub | furniture machines vessels fittings vehicles | ptdwfrk
polish/shine | valuables furniture vessels instruments | ptdwfr
paint | furniture fittings vehicles buildings | ptDwmrbC
varnish/lacquer | furniture instruments vehicles | ptDwm
oil/grease | machines vehicles | ptwfr
measure | fittings furniture buildings | ptu
weigh | animals valuables | pt
wash/rinse | clothes vessels vehicles | ptWfr
sweep | fittings | ptwf
brush | clothes animals | ptfr
inspect/examine/check | buildings machines vehicles fittings | ptdmrf
insure | valuables vehicles instruments works | tm
photograph | animals buildings plants vehicles works | ptbru
draw/sketch | animals buildings plants | ptbD
build/construct | fittings furniture vehicles buildings | ptDMmbwu
make/produce | furniture clothes vessels valuables | ptDMmbw
carve | works | ptDMbw
sew/stitch | clothes | ptDMbw
knit | clothes | ptDMb
weave | clothes | ptDMb
bake | dishes | ptbr
cook/prepare | dishes | ptbD
dig up/unearth | valuables vessels tools | ptw
bury | valuables papers vessels | ptwr
hide/conceal | valuables papers | tr PLACE
lose/mislay | valuables papers clothes tools | ptr
find/discover/come across | valuables papers clothes animals works | pt
steal/make off with | valuables vehicles works animals | ptr
break/smash | vessels valuables instruments | ptw
tear/rip | clothes papers | pt
burn/set fire to | papers clothes furniture | ptru
spill | drinks | pt
drop | vessels valuables instruments | ptr
throw away/discard | clothes furniture papers machines | tr
forget/leave behind | papers clothes valuables tools | ptr
leave | papers valuables vessels clothes | tr PLACE
put | papers valuables vessels tools | tr PLACE
hang/hang up | works clothes | tr PLACE
store/keep | goods tools instruments furniture | r PLACE
lock/lock up | fittings vehicles | twrf
open | fittings papers vessels | tw
buy/purchase | clothes furniture machines vehicles instruments vessels valuables works animals goods | ptmbru
buy/purchase | clothes furniture vehicles instruments valuables works animals | tmr FROM
sell | clothes furniture machines vehicles instruments vessels valuables works animals goods | ptmr TO
borrow | tools machines vehicles instruments clothes papers | tdru FROM
rent/hire | vehicles machines instruments buildings | tdmu FROM
inherit | valuables furniture buildings instruments works | t FROM
collect/pick up/fetch | papers goods furniture animals | ptrc FROM
receive/get | papers valuables goods | tr FROM
accept | papers valuables | tr FROM
give | clothes valuables vessels instruments animals papers | ptr TO
lend | tools machines vehicles instruments clothes | td TO
hand/pass | papers valuables tools | pt TO
send/post | papers goods valuables works | tr TO
show | papers works valuables plants | pt TO
offer | valuables vehicles goods animals | ptm TO
bring | papers goods dishes tools | tr TO
promise | valuables instruments animals | ptr TO
return/give back | tools papers valuables clothes | tr TO
deliver | goods papers furniture machines | tmh TO
send/ship | papers goods works machines | tghr
leave/bequeath | buildings valuables instruments furniture | r TO
read out/read aloud | papers texts | pt TO
write/compose | texts | ptDb
print | papers | ptm
sign | papers | ptr
translate | papers texts | ptDbm
copy/copy out | papers texts | ptb
frame | works papers | ptMm
restore | works furniture instruments buildings | ptDmb
tune | instruments | ptdmf
play/perform on | instruments | ptdfbc
practise | instruments | ptdf
feed | animals | ptfW
bathe | animals | ptfr
shear/clip | animals | ptr
train | animals | ptdu
walk | animals | ptfc
chase/run after | animals | ptd
catch/capture | animals | pt
rescue/save | animals valuables works | ptr
plant | plants | ptrb
water | plants | twf
prune/cut back | plants | ptwfr
cut down/fell | plants | ptwrm
transplant/move | plants | tr
pick/gather | food | ptbu
grow/raise | food plants | pd
eat | dishes food | ptrc
drink | drinks | ptfc
brew | drinks | ptDb
serve/dish up | dishes drinks | pt TO
order | goods machines papers furniture dishes | ptmrb FROM
cancel/call off | events papers | tr
organise/arrange | events | ptbu
attend/go to | events | tcrh
miss | events | r
open/start | events | ptn
film | events animals | ptb
postpone/put off | events | ry
load/stack | goods | pth
unload | goods | ptd
carry | goods furniture vessels papers | tGr
pull/drag | vehicles furniture vessels | tGr
push | vehicles furniture | tGr
move/shift | furniture machines instruments | tGr
lift | furniture machines vessels | t
dismantle/take apart | furniture machines vehicles instruments | ptDwr
assemble/put together | furniture machines vehicles | ptDw
test/try out | machines vehicles instruments | ptdr
switch off/turn off | machines | tr
install/put in | machines fittings | ptDm
replace/change | fittings machines | ptDmr
auction/put up for auction | valuables works furniture | ptmr
value/appraise | valuables works buildings | tm
wrap/wrap up | valuables papers vessels | ptb
label | vessels goods papers | ptr
count | goods | ptd
sort | goods | ptdr
deposit | valuables papers | t PLACE
decorate | buildings furniture fittings | ptr
search | buildings vehicles furniture | ptdr
visit | buildings events | tchfr
design | buildings furniture clothes | tDbm
rebuild/reconstruct | buildings fittings | tDMm
close/shut | buildings fittings | trd
wear | clothes valuables | ptr
iron/press | clothes | ptfr
dye | clothes | ptCw
examine/look at | papers works texts plants | ptd
hear/listen to | texts | ptc
praise | persons | pr
perform/put on | texts | ptrb
learn by heart/memorise | texts | ptdr
dedicate | texts | tr TO
finish/complete | texts works | ptDr
telephone/ring up/call | persons | ptr
meet/run into | persons | ptc
marry | persons | ptr
teach | persons | ptdf
visit/call on | persons | tdhrf
follow | persons | tr
invite | persons | tgr
photograph | persons | ptr
nurse/look after | persons animals | pdr
employ/take on | persons | ptr
succeed | persons | tA
paint/portray | persons | ptDm
"""

MOTION = """
walk/go on foot | gsecdtr
travel/journey | gscdhtru
cycle/ride | gsecdtr
sail | gscdtr
row | gsectD
move | gstr
drive | gschtdu
fly | gsht
hurry/rush | gstr
swim | gsecDt
return/come back | gsthr
set out/leave | gsctr
come | gsthr
climb | gecdt
emigrate | gstr
"""

STAY = """
live/dwell | pdcr
stay/lodge | pdctmr
sleep | pdtr
work | pdtf
wait | pdtr
sit | pdct
hide | pdr
spend the night | ptcr
retire | tr
faint/pass out | ptr
fall asleep | ptr
sing | pdftc
dance | pdtc
swim | pftcr
fish | pftc
meditate | pft
talk/speak | ptdqo
lecture/give a talk | ptdo
complain/grumble | tof
argue/quarrel | ptco
dream | tof
laugh | op
study | pdt
knock | tp
stop smoking | tr
resign/step down | tr
catch cold | ptr
get lost/lose the way | ptr
slip | ptr
break a leg | ptr
lose a tooth | pt
win the raffle | pt
arrive late/come late | tr
oversleep | tr
knit | pft
play cards | pftc
"""

CROWD = """
sleep | pdtr
arrive/come | ptshr
wait | pdtr
get lost/lose the way | ptr
fall ill | ptr
dance | pdt
sing | pdt
protest/object | ptr
leave/go home | thr
lose patience | ptr
get wet | ptr
stay away | tr
help/lend a hand | ptdr
have lunch/eat lunch | pt
visit/look at | buildings events works | ptdr
win/carry off | valuables | pt
sign | papers | ptr
find/discover | valuables papers animals | pt
carry/lug | furniture goods vessels | tGr
repair/mend | fittings machines vehicles | ptDwr
clean/scrub | buildings fittings vehicles | ptDwr
"""
