"""Nouns that clauses are made of, by classes. In a class of things a word with * stands in the plural alone. In classes
of stuff (MASS) a word in -s is a plural, another has no number."""

from clause_lists import listed

COUNT = """
clothes: coat jacket scarf shawl hat cap bonnet glove* mitten* sock* boot* shoe* slipper* trouser* braces* apron
jumper cardigan waistcoat skirt dress gown robe blouse shirt tie belt buckle cloak cape raincoat nightgown veil wig
sash kilt tunic costume uniform vest petticoat overall* sandal* clog* muff poncho beret helmet bowtie handkerchief
furniture: table bench chair stool armchair sofa bed cradle wardrobe cupboard chest dresser desk bookcase shelf
sideboard footstool screen mirror carpet rug cushion mattress hammock lamp chandelier clock cabinet rocking-chair
deckchair stove washstand drawer bookshelf coat-stand writing-desk couch tabletop bedstead trestle lectern pew
music-stand
machines: kettle toaster oven fridge freezer heater fan lamp mixer blender coffee-mill scale printing-press loom
sewing-machine lathe drill pump boiler generator engine radio gramophone projector camera telescope microscope
typewriter printer router vacuum-cleaner lawn-mower washing-machine dishwasher juicer thermostat barometer thermometer
alarm-clock metronome copier winch crane turbine compressor accordion-press doorbell telephone dehumidifier grinder
vehicles: bicycle tricycle cart wagon sledge tram bus van lorry tractor motorbike scooter caravan coach carriage
wheelbarrow canoe kayak rowing-boat punt barge dinghy raft ferry tug yacht ambulance locomotive cable-car balloon
instruments: violin cello viola fiddle flute recorder clarinet oboe bassoon trumpet trombone horn tuba harp lute
guitar banjo mandolin piano organ harpsichord accordion concertina harmonica drum tambourine xylophone bagpipe* zither
whistle
fittings: roof gutter chimney staircase banister doorstep door gate fence railing window shutter blind ceiling floor
wall balcony porch pavement drain well fountain bell flagpole hedge footbridge jetty trough letterbox lift hinge* lock
skylight awning weathercock sundial greenhouse shed trellis hen-house pond bandstand signpost lamp-post stile kennel
dovecote
vessels: bowl jug cup mug plate dish saucepan frying-pan teapot coffee-pot bucket basin barrel cask bottle flask jar
vase basket crate tin box trunk suitcase bag sack purse wallet satchel pot kettle-holder tray goblet glass decanter
ladle urn churn thermos watering-can hamper pitcher tankard casserole cauldron colander
tools: hammer saw chisel plane file rasp screwdriver spanner pliers* tongs* shears* scissors* knife axe spade shovel
rake hoe fork trowel sickle scythe broom brush mop sponge rag needle thimble awl ladder rope chain hook pulley crowbar
wire-brush sieve funnel whisk rolling-pin spoon peg clamp* mallet soldering-iron bicycle-pump magnifying-glass compass
ruler tape-measure penknife toothbrush feather-duster corkscrew can-opener paintbrush scraper spirit-level anvil
bellows*
papers: letter postcard parcel telegram cheque receipt invoice bill form ticket passport licence certificate diploma
map chart plan drawing sketch photograph album diary notebook logbook ledger catalogue leaflet poster newspaper
magazine petition contract will recipe list timetable report prescription stamp envelope manuscript score programme
key voucher
works: painting portrait landscape statue bust carving tapestry mosaic fresco banner quilt woodcut etching medal
monument tombstone mask puppet kite mural watercolour miniature altarpiece figurehead collage stained-glass-window
bas-relief
texts: poem novel play story essay song waltz march hymn ballad opera symphony sonata limerick lullaby quartet
dictionary atlas cookbook biography memoir guidebook sermon speech fairy-tale thesis textbook anthology libretto
cantata sea-shanty
valuables: ring brooch necklace bracelet earring* watch pocket-watch coin crown pendant locket snuffbox candlestick
figurine doll music-box chess-set globe rocking-horse teddy-bear train-set stopwatch lantern umbrella parasol
walking-stick pipe fountain-pen pair-of-spectacles rosary trophy cup-and-saucer sword dagger shield spyglass amulet
fan
animals: cat dog parrot goat sheep pig cow calf horse pony donkey mule hen cockerel goose duck swan turkey rabbit
hamster guinea-pig tortoise canary pigeon owl hedgehog badger fox deer squirrel ferret hound terrier poodle dachshund
kitten puppy lamb foal heron stork peacock jackdaw lizard frog toad carp pike eel goldfish bat otter marten hawk seal
plants: rose tulip dahlia lily orchid fern palm cactus oak beech birch willow maple lime-tree pear-tree apple-tree
cherry-tree plum-tree walnut-tree vine hawthorn holly bush yew lavender-bush hydrangea peony sunflower fig-tree
quince-tree
buildings: mill barn smithy bakery brewery dairy chapel church abbey priory school library museum theatre cinema
town-hall courthouse prison hospital clinic pharmacy inn hotel hostel castle tower lighthouse fort palace warehouse
factory foundry tannery sawmill shipyard boathouse station airport harbour-office fire-station post-office bank
market-hall swimming-bath* laundry gymnasium observatory greenhouse cottage farmhouse windmill villa bungalow pavilion
hut bridge
events: supper concert fair meeting lecture walk parade exhibition market race picnic dance workshop auction festival
tournament reading service rehearsal play quiz wedding funeral christening regatta carnival outing trial sale
excursion reunion bazaar recital banquet ceremony match course jumble-sale election inspection performance hike
pageant
keepables: parcel bicycle pram key dog-lead umbrella skate book newspaper mattress rubbish-bin ladder tool-box canoe
tent suitcase crate bottle hymn-book cushion boot costume lantern chair banner map sledge wheelbarrow bucket
beasts: hen swan goat sheep rabbit pigeon duck bee donkey pony goose pig cow
openings: bathroom-window kitchen-window skylight back-door cellar-door garden-gate cat-flap chimney trapdoor
stage-door attic-window side-door tunnel ventilation-shaft
boats: ferry tug yacht barge punt raft rowing-boat trawler schooner steamer fishing-boat paddle-boat lifeboat
houseboat
dogs: terrier poodle dachshund hound spaniel collie mastiff greyhound sheepdog pug retriever puppy
dishes: rye-loaf onion-soup apple-cake plum-tart fish-stew leek-pie lentil-soup nettle-soup cheese-pie plum-jam
potato-salad cherry-cake pear-tart beef-stew seed-cake gingerbread mushroom-pie pea-soup bean-stew lemon-pudding
bread-pudding almond-cake carrot-cake honey-cake rice-pudding rhubarb-crumble quince-jelly fish-pie goose-pie
walnut-bread pumpkin-soup barley-broth cabbage-roll dumpling omelette pancake pickle chutney goulash casserole trifle
marmalade custard sponge-cake spinach-tart ham-pie venison-stew chestnut-soup poppy-seed-cake spice-bread oat-biscuit
raisin-bun salmon-pie eel-stew
sums: damage reward deposit fee fine subscription collection toll loan grant insurance
dues: inspection sweeping cleaning painting delivery payment rehearsal tuning repair service meeting visit
jobs: drilling painting sweeping digging felling mowing demolition cleaning repair tiling plastering stocktaking
rewiring
trips: trip outing excursion pilgrimage tour ride voyage walk
"""

MASS = """
food: almonds apples barley beans beetroot butter cabbage carrots cauliflower celery cheese cherries chestnuts
chocolate cinnamon cloves coconut cream cucumber currants dates dill eggs fennel figs flour garlic ginger hazelnuts
honey leeks lemons lentils milk mint mushrooms mustard noodles nutmeg oats olives onions oranges paprika parsley
parsnips peaches pears peas pepper plums potatoes prunes pumpkin quinces radishes raisins raspberries rhubarb rice
rosemary saffron sage salt sesame spinach strawberries sugar thyme tomatoes turnips vanilla vinegar walnuts yeast
yoghurt bacon ham mackerel herring trout cod eel veal mutton treacle syrup semolina sorrel chives capers gooseberries
blackcurrants cranberries horseradish buttermilk lard suet breadcrumbs sultanas caraway marjoram
drinks: tea coffee cocoa cider beer stout wine brandy gin whisky lemonade milk buttermilk elderflower-cordial
apple-juice ginger-beer mead port sherry water rum perry birch-sap tomato-juice nettle-tea
goods: coal firewood peat gravel sand cement timber hay straw oats wheat seed-potatoes bricks tiles slates nails
screws rope sailcloth wool linen paper ink paint soap candles salt sugar tobacco spices wine oil turpentine varnish
glue wallpaper fish-meal fertiliser sawdust lamp-oil bandages blankets envelopes stamps postcards bulbs feathers honey
stuffs: soap vinegar turpentine wax linseed-oil olive-oil lemon-juice salt-water chalk ash bran steam beeswax
glycerine petrol sand lavender-oil ammonia baking-soda bleach alcohol lime butter goose-fat paraffin
bites: nettles oats acorns cherries carrots cheese lettuce herring sardines bread-crusts beetles worms hay clover
dandelions bananas apples rice sunflower-seeds porridge liver minced-beef potato-peelings toast spinach mealworms
slugs biscuits chestnuts cabbage-leaves thistles cucumber boiled-eggs kippers
"""

PEOPLE = """baker butcher cobbler tailor miller smith carpenter joiner mason thatcher plumber electrician
glazier painter gardener farmer shepherd fisherman sailor captain pilot driver conductor porter postman teacher
nurse doctor surgeon dentist chemist vet midwife judge lawyer clerk notary banker treasurer secretary librarian
archivist bookbinder printer editor journalist photographer actor singer organist violinist composer painter
sculptor potter weaver dyer hatter watchmaker goldsmith locksmith saddler cooper brewer vintner innkeeper cook
waiter grocer chandler beekeeper forester gamekeeper ranger diver lifeguard firefighter policeman detective
soldier bishop priest vicar verger sexton monk nun student apprentice lodger neighbour tourist widow pensioner
botanist geologist astronomer chemist engineer surveyor architect caretaker janitor usher guide chimney-sweep
knife-grinder puppeteer juggler acrobat magician trainer referee chess-player optician translator interpreter
typist seamstress milliner confectioner cheesemaker""".split()
TRADES = [name for name in PEOPLE if name not in ("widow", "tourist", "lodger", "neighbour", "pensioner", "student")]
KIN = """sister brother cousin aunt uncle grandmother grandfather nephew niece mother father daughter son
godmother godfather stepsister brother-in-law sister-in-law great-aunt great-uncle""".split()
FEMALE_KIN = set("sister aunt grandmother niece mother daughter godmother stepsister sister-in-law great-aunt".split())
FEMALE = """Ada Agnes Alice Alma Anna Astrid Beatrice Bettine Bridget Carla Celia Clara Cora Daisy Dilys Dora
Edith Elena Eleanor Eliza Ella Emily Esther Eva Fanny Flora Frances Freya Gerda Grace Greta Gudrun Hannah
Harriet Helen Hester Hilda Hortensia Ida Ilse Inga Irene Isabel Ivy Jane Jelka Jemima Joan Judith Julia Kate
Katya Laura Lena Lettice Lotte Louisa Lucy Ludmilla Mabel Magda Margaret Marta Martha Matilda Maud Mina Minna
Miriam Molly Nadia Nell Nerys Nora Olga Olive Ottoline Pamela Petra Phoebe Rosa Ruth Sabine Sarah Selma Silke
Simone Sofia Stella Susan Sylvia Tamsin Thea Theresa Tilda Ulla Una Ursula Vera Victoria Violet Wanda Winifred
Yvonne Zora""".split()
MALE = """Abel Adam Alban Albert Aldo Ambrose Amos Anton Arthur Axel Barnaby Bertram Boris Bram Bruno Caleb
Caspar Cecil Charles Clement Conrad Cyril Daniel David Dmitri Edgar Edmund Edwin Emil Enoch Ernest Eugene Felix
Francis Frederick Fritz George Gerald Gideon Gregory Hamish Hanno Harold Hector Henry Herbert Horace Howard Hugh
Humphrey Igor Isaac Ivo Jacob James Jasper Jeremiah Jonas Jory Joseph Josiah Julian Karl Kasimir Konrad Lambert
Leo Leopold Lewis Luca Luke Magnus Marek Martin Matthew Maurice Milo Miles Moritz Nathan Ned Nestor Nigel Noah
Odo Olaf Oscar Osgar Otto Oswald Pavel Percy Philip Piet Quentin Ralph Roland Rufus Rupert Samuel Silas Simon
Stefan Sven Tarvo Theo Thomas Tobias Umberto Victor Viktor Walter Wilhelm Wilfred Zoltan""".split()
TITLES = {"she": "Mrs Miss Ms Dr Frau Sister".split(), "he": "Mr Dr Master Herr Canon Father Captain".split()}

ADJECTIVES = """old new small large heavy light dusty plain pretty ugly odd curious cheap costly foreign rare
famous second-hand borrowed inherited forgotten""".split()
ADJECTIVES_OF = {
    "clothes": "striped woollen checked plaid patched frayed embroidered stained silk leather thick thin long short "
    "knitted faded waterproof hand-made spotted velvet",
    "furniture": "carved painted wooden round square folding wobbly rickety polished lacquered narrow antique padded "
    "varnished low tall oak walnut",
    "machines": "electric noisy silent rusty portable mechanical broken modern hand-driven unreliable dented greasy",
    "vehicles": "rusty dented broken painted electric three-wheeled noisy folding muddy well-oiled open two-seated",
    "instruments": "battered out-of-tune polished silver wooden cracked lacquered toy concert hand-made mute small",
    "fittings": "rusty wooden iron crooked mossy narrow wide painted leaking rotten broken low stone copper",
    "vessels": "copper tin glass enamel cracked dented brass earthenware sooty round pewter chipped silver wooden "
               "blue-rimmed",
    "tools": "rusty blunt sharp long-handled wooden broken iron oiled greasy short bent brand-new",
    "papers": "yellowed crumpled torn unsigned sealed printed typewritten folded blotted anonymous illegible framed",
    "works": "unfinished celebrated modest early late lost life-size miniature comic sad anonymous two-part",
    "texts": "unfinished celebrated modest early late lost short long comic sad anonymous two-part printed",
    "valuables": "silver golden copper brass enamel engraved tarnished mother-of-pearl broken tiny lacquered ivory",
    "plants": "wild tall potted withered climbing dwarf thorny scented ancient young",
    "boats": "leaking painted fast slow wooden",
    "dogs": "shaggy lame white brown spotted hungry",
    "buildings": "stone brick wooden half-timbered ruined white-washed red-roofed "
    "abandoned narrow low haunted modern thatched medieval",
    "dishes": "plain sweet spicy burnt cold hot rich",
}
ANIMAL_ADJECTIVES = """old young lame blind deaf greedy shy tame stubborn clever fat thin spotted striped grey
black white brown ginger one-eyed noisy lazy friendly stray shaggy three-legged huge tiny bad-tempered""".split()
PERSON_ADJECTIVES = """old young retired deaf tall stout kindly gloomy cheerful bearded one-armed shy talkative
elderly former local foreign left-handed""".split()
EVENT_ADJECTIVES = """spring summer autumn winter harvest midsummer Easter village school county river garden
mountain children's charity anniversary jazz poetry chess flower cheese lantern kite annual monthly final""".split()
COLOURS = """red blue green yellow brown grey violet orange pink purple scarlet crimson amber olive ivory silver
black white turquoise beige mustard lilac rust cream maroon""".split()
SHADES = """pale dark bright bottle deep dull light moss rich faded sky brick lemon steel plum slate""".split()
SHAPES = """owl acorn anchor apple bee bell boot cat crown dolphin egg elephant fish frog hand harp heart
hedgehog horse leaf lion moon mushroom pear pine-cone rose shell ship snail star sun swan tear tortoise tulip
whale""".split()
ROOMS = """kitchen library attic cellar hall chapel workshop laundry gymnasium canteen courtyard greenhouse
boathouse reading-room stable tower waiting-room office barn garage lobby theatre pantry nursery scout-hut
vestry crypt dormitory music-room map-room storeroom ballroom schoolroom tea-room ticket-office signal-box
grain-store bicycle-room schoolyard orchard vineyard quarry garden churchyard market-square car-park""".split()
SPOTS = listed("""the fire station;the old mill;the church;the bus stop;the river;the town hall;the harbour;
the bakery;the quarry;the railway station;the duck pond;the chapel;the post office;the bridge;the water tower;
the tram depot;the school gate;the lighthouse;the cinema;the brewery;the weir;the cemetery;the market square;
the hospital;the chestnut tree;the laundry;the pier;the bandstand;the brickworks;the flower shop;the vicarage;
the tea room;the sluice;the toll house;the signal box;the sawmill;the stables;the lime kiln;the swimming baths;
the fish market""")
HOLDERS = """chest drawer cupboard tin biscuit-tin shoebox basket suitcase trunk safe wardrobe bucket crate
barrel vase glass-case piano-stool hatbox cash-box teapot linen-bag sack jar writing-desk hamper boot""".split()
TOPICS = listed("""the price of coal;the moon;bees;old clocks;the history of salt;tram lines;drains;
the new bridge;Greek temples;sea birds;mushrooms;the school roof;parking;noise at night;dry stone walls;
wild garlic;locks and canals;the war years;the lost railway;lace;Latin grammar;steam engines;comets;
the parish records;stained glass;bread ovens;shipwrecks;owls;the water rates;the rent;street lamps;
fishing rights;the harvest;snow;bats;medieval maps;apple varieties;folk songs;the theft;the election;a ghost;
his bad knee;the dog's barking;the missing keys;Danish cheese;beekeeping;the north road;glaciers;first aid;
bookbinding;tide tables;the flood of last year;rats;the cost of glass;a dead whale;the bus timetable;wallpaper;
rheumatism;peat;the accident;insurance;sundials;the moths in the robes""")
FIRM_ENDS = listed("""Works;Brothers;Mills;Trading;Foundry;Bakery;Nurseries;Instruments;Press;Dairy;Boatyard;
Garage;Stores;Textiles;Glass;Timber;Clinic;Pottery;Insurance;Laundry;Energy;Tools;Elevators;Plumbing;Workshops;
Household;Elektrik;Removals;Shipping;Optics;Chemicals;Seeds;Clocks;Roofing;Catering;Castings;& Sons;& Daughters;
& Co.""")
TONGUES = """Danish Welsh Finnish Greek Basque Maltese Polish Latin Irish Turkish Hungarian Czech Swahili
Icelandic Estonian Breton Catalan Persian Korean Thai Norwegian Dutch Armenian Georgian""".split()
GAMES = """chess cards draughts billiards dominoes skittles bowls tennis croquet backgammon marbles rounders
hockey football cricket darts badminton table-tennis water-polo handball""".split()
FEARS = """thunder spiders lifts bridges dentists moths balloons geese ghosts heights mice open-water bees
clowns trains stairs fireworks the-dark snakes mirrors cows bagpipes priests snow umbrellas""".split()


def _classes(table):
    made, name = {}, ""
    for word in table.split():
        if word.endswith(":"):
            name = word[:-1]
            made[name] = []
        else:
            made[name].append(word)
    return made


COUNT, MASS = _classes(COUNT), _classes(MASS)
ADJECTIVES_OF = {kind: ADJECTIVES + words.split() for kind, words in ADJECTIVES_OF.items()}
